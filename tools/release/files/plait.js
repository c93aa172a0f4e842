#!/usr/bin/env node
// Runs the binary of this platform, which is a package of its own: nothing is downloaded or run when it is installed.
'use strict';
const { spawn } = require('child_process');
const { constants } = require('os');

const name = `plait-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/plait`);
} catch {
  console.error(`plait: there is no package ${name}: either Plait has no binary for this platform, or npm left out ` +
    'optional dependencies (--omit=optional)');
  process.exit(1);
}
const args = process.argv.slice(2);
if (process.execve) {
  process.execve(binary, [binary, ...args]); // does not return
}
// A terminal sends its signals to both, others only to this process: the binary alone decides what they mean. Once it
// runs none may end this process, so that they are handled before.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
const child = spawn(binary, args, { stdio: 'inherit' });
child.on('error', (err) => {
  console.error(`plait: run ${binary}: ${err.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
