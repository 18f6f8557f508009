// Reacts to payments of SOL as they happen, each with its instructions by name, over a websocket.
//   API_KEY=KEY node stream-bot.mjs [ADDRESS]
// Needs the plugin streams in the daemon, and Node 22, or Node 20 with --experimental-websocket.
import { API, WALLET } from './client.mjs';

const address = process.argv[2] ?? WALLET;
const socket = new WebSocket(`${API.replace(/^http/, 'ws')}/?api-key=${process.env.API_KEY}`);
socket.onopen = () => {
  const params = [{ accounts: { include: [address] }, instructionNames: ['transfer'] }];
  socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'parsedTransactionSubscribe', params }));
};
socket.onmessage = ({ data }) => {
  const { error, result, params } = JSON.parse(data);
  if (error !== undefined) throw new Error(error.message);
  if (result !== undefined) console.log(`subscribed as ${result}`);
  else console.log(JSON.stringify(params.result));
};
socket.onclose = ({ code, reason }) => {
  console.error(`closed: ${code} ${reason}`);
  process.exit(1);
};
