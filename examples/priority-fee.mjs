// What a transaction should offer to be in one of the next blocks.
//   API_KEY=KEY node priority-fee.mjs [ADDRESS]
import { rpc, WALLET } from './client.mjs';

const COMPUTE_UNITS = 200_000;
const options = { includeAllPriorityFeeLevels: true };
const { priorityFeeLevels } = await rpc('getPriorityFeeEstimate', [{ accountKeys: [process.argv[2] ?? WALLET], options }]);
for (const [level, microLamports] of Object.entries(priorityFeeLevels))
  console.log(`${level.padEnd(10)} ${microLamports} micro-lamports a unit, ${Math.ceil((microLamports * COMPUTE_UNITS) / 1e6)} lamports`);
