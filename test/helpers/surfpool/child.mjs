/**
 * Runs the third-party node in a process of its own, because its sockets outlive `stop()`. Prints one JSON line with its addresses,
 * answers `fund <address> <lamports>` lines on stdin, and ends when stdin closes.
 */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { Surfnet } = createRequire(import.meta.url)('@solana/surfpool-linux-x64-gnu');
const node = Surfnet.startWithConfig({
  offline: true,
  blockProductionMode: 'clock',
  slotTimeMs: Number(process.argv[2]),
});
// The node stalls after about a thousand events that nobody takes.
setInterval(() => node.drainEvents(), 50).unref();
console.log(JSON.stringify({ rpcUrl: node.rpcUrl, wsUrl: node.wsUrl }));

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [command, address, lamports] = line.split(' ');
    if (command === 'fund') node.fundSol(address, Number(lamports));
    console.log(JSON.stringify({ done: line }));
  })
  .on('close', () => process.exit(0));
