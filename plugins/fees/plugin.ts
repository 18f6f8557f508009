import { decode32, encode32 } from '../../src/lib/base58.ts';
import { type ChainReader, type PluginContext, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import type { FeesConfig } from './config.ts';
import {
  type FeeOptions,
  type FeeRequest,
  feeParams,
  readDraftMessage,
  readFeeRequest,
  readLookback,
  writableKeys,
} from './request.ts';
import { estimate, hashAccount, LEVELS, type Levels } from './slot-fees.ts';
import { createFeeProcessor, createWindow, type Window } from './window.ts';

/** What `recommended` gives at least, micro-lamports per compute unit. */
const MIN_RECOMMENDED = 10_000;
/** Bytes before the addresses in an address lookup table. */
const TABLE_HEADER_BYTES = 56;
const TABLE_STATE = 1;

export function provision(ctx: PluginContext<FeesConfig>): void {
  const window = createWindow(() => ctx.store);
  if (ctx.roles.has('api')) {
    ctx.metrics.observe('slots', 'slots whose fees are in memory', () => window.size);
    ctx.metrics.observe('slots_bytes', 'size of the fees in memory', () => window.bytes);
  }
  ctx.blocks.on(createFeeProcessor());
  ctx.rpc.method({ ...method(ctx, window, 'getPriorityFeeEstimate', 2), aliases: ['getPriorityFeeEstimateV2'] });
  ctx.rpc.method(method(ctx, window, 'getPriorityFeeEstimateV1', 1));
}

const fee = (description: string) => Type.Number({ minimum: 0, description, examples: [10_000] });
const levels = Type.Object(Object.fromEntries(Object.keys(LEVELS).map((level) => [level, fee(`The level ${level}`)])), {
  title: 'PriorityFeeLevels',
  description: 'All levels, with includeAllPriorityFeeLevels',
});

function method(ctx: PluginContext<FeesConfig>, window: Window, name: string, algorithm: 1 | 2): RpcMethod {
  return {
    name,
    summary: `Estimates the priority fee, in micro-lamports per compute unit${algorithm === 1 ? ', by the first algorithm' : ''}`,
    tag: { name: 'Priority fees', description: 'What transactions pay to be included' },
    auth: 'key',
    price: {
      product: 'rpc',
      get credits() {
        return ctx.config.credits;
      },
      groups: ['rpc'],
    },
    params: feeParams,
    checksParams: true,
    result: Type.Object(
      {
        priorityFeeEstimate: Type.Optional(fee('The estimate, in micro-lamports per compute unit')),
        priorityFeeLevels: Type.Optional(levels),
        priorityFeeEstimateDetails: Type.Optional(
          Type.Array(Type.Unknown(), { description: 'Of each account, with includeDetails', examples: [[]] }),
        ),
      },
      { description: 'The estimate, or all levels', examples: [{ priorityFeeEstimate: 10_000 }] },
    ),
    async handler({ params, signal, tenant }) {
      const asked = readFeeRequest(params);
      const names = await namesOf(asked, ctx.chain('main'), {
        signal,
        tenant,
        timeoutMs: ctx.config.upstreamTimeoutMs,
      });
      const lookbackSlots = readLookback(asked.options);
      const accounts = names.flatMap((account) => {
        const key = decode32(account);
        return key === null ? [] : [{ name: account, hash: hashAccount(key) }];
      });
      const view = await window.current();
      const { options } = asked;
      const includeVote = options === null || options.includeVote === true;
      const question = { algorithm, accounts, includeVote, countEmptySlots: emptySlotsCount(options) };
      const made = estimate(view.slots.slice(0, lookbackSlots), question, view.global(lookbackSlots, includeVote));
      return {
        ...chosen(made.levels, options),
        ...(options?.includeDetails === true ? { priorityFeeEstimateDetails: made.details } : {}),
      };
    },
  };
}

const emptySlotsCount = (options: FeeOptions | null) => options !== null && (options.evaluateEmptySlotAsZero ?? true);

function chosen(levels: Levels, options: FeeOptions | null) {
  if (options?.includeAllPriorityFeeLevels === true) return { priorityFeeLevels: levels };
  if (options?.recommended === true) return { priorityFeeEstimate: Math.max(levels.medium, MIN_RECOMMENDED) };
  const level = options?.priorityLevel ?? 'Default';
  const name = level === 'Default' ? 'medium' : ((level[0]!.toLowerCase() + level.slice(1)) as keyof Levels);
  return { priorityFeeEstimate: levels[name] };
}

type AskOptions = Parameters<ChainReader['call']>[2];

/** base58 of the accounts: as named, or what the transaction may write to and everything it looks up. */
async function namesOf(asked: FeeRequest, reader: ChainReader | null, how: AskOptions): Promise<readonly string[]> {
  if (asked.transaction === null) return asked.accountKeys ?? [];
  const message = readDraftMessage(asked.transaction, asked.options?.transactionEncoding);
  const tables = message.lookups.map(({ table }) => encode32(table));
  if (tables.length === 0) return writableKeys(message);
  if (reader === null) throw new RpcError('unavailable', { details: 'no Solana upstream is configured' });
  const { value } = await reader
    .call<{ value: readonly ({ data: readonly [string, string] } | null)[] }>(
      'getMultipleAccounts',
      [tables, { encoding: 'base64', commitment: 'confirmed' }],
      how,
    )
    .catch((cause: unknown) => {
      throw new RpcError('unavailable', { details: 'the address lookup tables could not be read', cause });
    });
  const looked = message.lookups.flatMap(({ writable, readonly }, at) => {
    const table = Buffer.from(value[at]?.data[0] ?? '', 'base64');
    // One that does not exist (yet) says nothing, and the transaction cannot run before it does.
    if (table.length < TABLE_HEADER_BYTES || table.readUInt32LE(0) !== TABLE_STATE) return [];
    const addresses = table.subarray(TABLE_HEADER_BYTES);
    return [...new Set([...writable, ...readonly])]
      .filter((index) => (index + 1) * 32 <= addresses.length)
      .map((index) => encode32(addresses, index * 32));
  });
  return [...writableKeys(message), ...looked];
}
