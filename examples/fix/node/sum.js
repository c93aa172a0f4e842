'use strict';

// sum adds numbers up. It does so wrongly: the example codex-fix-node mends it.
function sum(...numbers) {
  return numbers.slice(1).reduce((total, n) => total + n, 0);
}

module.exports = {sum};
