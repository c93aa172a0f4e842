'use strict';

const assert = require('node:assert');
const test = require('node:test');
const {sum} = require('./sum.js');

test('sum adds all numbers up', () => {
  assert.strictEqual(sum(1, 2, 3), 6);
});
