// Loaded in front of a program with --import: writes a line to standard error whenever it opens a socket, a listener or a database.
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';

const tell = (what) => process.stderr.write(`WITNESS ${what}\n`);

for (const [owner, method] of [
  [net.Server.prototype, 'listen'],
  [net.Socket.prototype, 'connect'],
]) {
  const original = owner[method];
  owner[method] = function (...args) {
    // node passes its normalised arguments as one list. Pipes to the loader of TypeScript are no affair of the program's.
    const [first] = Array.isArray(args[0]) ? args[0] : args;
    if (typeof first !== 'string' && first?.path === undefined) tell(method);
    return original.apply(this, args);
  };
}
syncBuiltinESMExports();

// Every database goes through this native binding.
const dlopen = process.dlopen;
process.dlopen = function (module, path, ...rest) {
  const result = dlopen.call(this, module, path, ...rest);
  if (/better[-_]sqlite3/.test(path)) tell('database');
  return result;
};
