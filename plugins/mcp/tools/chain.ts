import { Type } from '../../../src/plugin/plugin.ts';
import {
  answered,
  anything,
  type Calls,
  choice,
  count,
  defineTool,
  listOf,
  required,
  type ToolAnswer,
  ToolError,
} from '../tool.ts';
import { itemsOf, memberOf } from './answers.ts';

const VIEWS = ['status', 'fees', 'block'] as const;
const COMMITMENTS = ['processed', 'confirmed', 'finalized'] as const;

export const chainTool = defineTool({
  name: 'chain_status',
  title: 'Chain',
  description:
    'The chain now. Views: status (slots by commitment, epoch, health and version of the node, verified finality), fees (priority fees, in micro-lamports per compute unit, in general or for given accounts), block (one block by its slot: time, parent and signatures).',
  input: Type.Object(
    {
      view: Type.Optional(choice(VIEWS, 'default: status')),
      accounts: Type.Optional(
        Type.Array(Type.String({ minLength: 32, maxLength: 44 }), {
          minItems: 1,
          maxItems: 100,
          description: 'of fees: accounts that the transaction writes',
        }),
      ),
      slot: Type.Optional(Type.Integer({ minimum: 0, description: 'of block' })),
    },
    { additionalProperties: false },
  ),
  data: answered({
    slots: anything('Newest slot by commitment'),
    epoch: anything('Epoch, and slots in it'),
    health: anything('ok, or why not'),
    finality: anything('Whether the newest final slot is proven by a certificate that was checked'),
    fees: anything('Estimates by level'),
    block: anything('blockhash, parentSlot, blockTime, blockHeight'),
    signatures: listOf('Transactions of the block'),
  }),
  async run({ view = 'status', accounts, slot }, calls) {
    if (view === 'fees') {
      const fees = await calls.rpc('getPriorityFeeEstimate', [
        {
          ...(accounts === undefined ? {} : { accountKeys: accounts }),
          options: { includeAllPriorityFeeLevels: true },
        },
      ]);
      return { summary: 'Priority fees, in micro-lamports per compute unit.', data: { fees } };
    }
    if (view === 'block') return await blockOf(calls, required(slot, 'slot', 'block'));
    const [slots, epoch, health, version, finality] = await Promise.all([
      Promise.all(COMMITMENTS.map((commitment) => calls.rpc('getSlot', [{ commitment }]))),
      orReason(calls.rpc('getEpochInfo', [])),
      orReason(calls.rpc('getHealth', [])),
      orReason(calls.rpc('getVersion', [])),
      orReason(calls.rpc('getSlotFinality', [])),
    ]);
    const byCommitment = Object.fromEntries(COMMITMENTS.map((commitment, index) => [commitment, slots[index]]));
    const lines = COMMITMENTS.map((commitment) => `${commitment} ${String(byCommitment[commitment])}`);
    return {
      summary: `Newest slots: ${lines.join(', ')}. ${health === 'ok' ? 'The node is healthy.' : 'The node is not healthy.'}`,
      data: { slots: byCommitment, epoch, health, version, finality: memberOf(finality, 'value') ?? finality },
    };
  },
});

/** Slots are the answer; what else a node tells may be absent. */
const orReason = (call: Promise<unknown>): Promise<unknown> =>
  call.catch((error: unknown) => {
    if (error instanceof ToolError) return error.message;
    throw error;
  });

async function blockOf(calls: Calls, slot: number): Promise<ToolAnswer> {
  const options = { transactionDetails: 'signatures', rewards: false, maxSupportedTransactionVersion: 1 };
  const found = await calls.rpc('getBlock', [slot, { ...options, commitment: 'confirmed' }]);
  if (found === null) return { summary: `No block in slot ${slot} yet.`, data: { block: null, signatures: [] } };
  const { signatures, ...block } = found as Record<string, unknown>;
  return {
    summary: `The block of slot ${slot} has ${count(itemsOf(signatures).length, 'transaction')}.`,
    data: { block, signatures: itemsOf(signatures), hash: memberOf(found, 'blockhash') },
  };
}
