/** The local chain in the persona of a release, beside a real node of that release: the same calls have the same answers. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { type AgaveRelease, agaveMissing, startAgave } from '../../helpers/agave.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { eventually } from '../agave/harness.ts';

const missing = await chainMissing();

/** An address that has no slots, no stake and no account. */
const STRANGER = encode32(Buffer.alloc(32, 7));
const SIGNATURE = '5'.repeat(88);
const FAR = 10 ** 12;

type Answer = { readonly result?: unknown; readonly error?: { readonly message: string; readonly data?: unknown } };

async function ask(url: string, method: string, params: readonly unknown[]): Promise<Answer> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  const { result, error } = (await response.json()) as Answer;
  return error === undefined ? { result } : { error };
}

/** What a release can differ in: names, kinds and lengths; values are of the chain. */
function form(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value === null ? null : typeof value;
  if (Array.isArray(value)) return value.length > 0 && value.length < 4 ? value.map(form) : value.map(form).slice(0, 1);
  const members = Object.entries(value).map(([key, member]) => [key.length > 31 ? 'address' : key, form(member)]);
  return Object.fromEntries(members.sort(([left], [right]) => ((left as string) < (right as string) ? -1 : 1)));
}

/** Slots differ between two chains. */
const shown = ({ result, error }: Answer) =>
  error === undefined
    ? form(result)
    : {
        ...error,
        message: error.message.replace(/\b[1-9A-HJ-NP-Za-km-z]{32,44}\b/, 'ADDRESS'),
        data: form(error.data ?? null),
      };

interface Facts {
  readonly slot: number | string;
  readonly identity: string;
  readonly vote: string;
}

const TRANSFER_CONFIG = { encoding: 'base64', replaceRecentBlockhash: true };

function callsOf({ slot, identity, vote }: Facts): readonly (readonly [string, ...unknown[]])[] {
  const base58 = { encoding: 'base58', maxSupportedTransactionVersion: 1 };
  return [
    ['getAgGenesisCert'],
    ['getRankMap'],
    ['getRankMap', null],
    ['getRankMap', 0],
    ['getRankMap', FAR],
    ['getRankMap', 0, { identity }],
    ['getRankMap', 0, { identity: vote }],
    ['getRankMap', 0, { identity: STRANGER }],
    ['getRankMap', 0, { identity: 'short' }],
    ['getRankMap', 0, { identity: null }],
    ['getRankMap', 0, { commitment: 'confirmed' }],
    ['getRankMap', 0, { minContextSlot: FAR }],
    ['getLeaderSchedule', null, { identity }],
    ['getLeaderSchedule', null, { identity, keyByVoteAccount: true }],
    ['getLeaderSchedule', null, { keyByVoteAccount: true }],
    ['getLeaderSchedule', null, { identity: STRANGER }],
    ['getLeaderSchedule', null, { identity: vote }],
    ['getInflationReward', Array.from({ length: 32 }, () => STRANGER), { epoch: FAR }],
    ['getInflationReward', Array.from({ length: 33 }, () => STRANGER)],
    ['getSignatureStatuses', [SIGNATURE], {}],
    ['getSignatureStatuses', [SIGNATURE], { minContextSlot: FAR, searchTransactionHistory: true }],
    ['getSignatureStatuses', [SIGNATURE], { commitment: 'finalized', searchTransactionHistory: false }],
    ['getTransaction', SIGNATURE, { minContextSlot: FAR }],
    ['getTransaction', SIGNATURE, base58],
    ['getTransaction', SIGNATURE, { ...base58, encoding: 'binary' }],
    ['getTransaction', SIGNATURE, { ...base58, maxSupportedTransactionVersion: 0 }],
    ['getBlock', slot, base58],
    ['getBlock', slot, { ...base58, transactionDetails: 'none' }],
    ['getBlock', slot, { ...base58, maxSupportedTransactionVersion: 0, transactionDetails: 'none' }],
    // Two members that are wrong: which of them is told first.
    ['getTransaction', 'short', base58],
    ['getTransaction', 'short', { ...base58, commitment: 'processed' }],
    ['getTransaction', 'short', { minContextSlot: FAR }],
    ['getTransaction', SIGNATURE, { ...base58, commitment: 'processed' }],
    ['getTransaction', SIGNATURE, { ...base58, minContextSlot: FAR }],
    ['getTransaction', SIGNATURE, { commitment: 'processed', minContextSlot: FAR }],
    ['getBlock', slot, { ...base58, commitment: 'processed' }],
    ['getBlock', FAR, base58],
    ['getBlock', FAR, { commitment: 'processed' }],
    ['getBlockCommitment', slot],
    ['getBlock', slot, { commitment: 'processed' }],
    ['simulateTransaction', 'gQ'.padEnd(5_468, 'A'), TRANSFER_CONFIG],
    ['simulateTransaction', 'A'.repeat(1_648), TRANSFER_CONFIG],
    ['simulateTransaction', 'AAAA', { ...TRANSFER_CONFIG, innerInstructionsEncoding: 'base64' }],
    ['simulateTransaction', 'AAAA', { ...TRANSFER_CONFIG, innerInstructionsEncoding: 'xx' }],
    ['voteSubscribe'],
  ];
}

async function factsOf(url: string): Promise<Facts> {
  const of = async <T>(method: string, ...params: unknown[]) => (await ask(url, method, params)).result as T;
  const { identity } = await of<{ identity: string }>('getIdentity');
  const { current, delinquent } =
    await of<Record<'current' | 'delinquent', { votePubkey: string }[]>>('getVoteAccounts');
  const [slot] = await of<number[]>('getBlocks', 0, 20, { commitment: 'confirmed' });
  return { identity, slot: slot!, vote: [...current, ...delinquent][0]!.votePubkey };
}

/** The calls as they are named in a difference. */
const NAMES = callsOf({ slot: 'SLOT', identity: 'IDENTITY', vote: 'VOTE' }).map((call) =>
  JSON.stringify(call).slice(0, 120),
);

async function answersOf(url: string) {
  const found: [string, unknown][] = [];
  for (const [method, ...params] of callsOf(await factsOf(url)))
    found.push([NAMES[found.length]!, shown(await ask(url, method, params))]);
  return found;
}

for (const [release, consensus] of [
  ['4.2', 'towerbft'],
  ['4.4', 'alpenglow'],
  ['4.5', 'alpenglow'],
] as const satisfies readonly (readonly [AgaveRelease, string])[]) {
  test(`the local chain answers as Agave ${release} does`, {
    skip: missing ?? agaveMissing(release) ?? false,
  }, async (t: TestContext) => {
    const node = await startAgave({ release, alpenglow: consensus === 'alpenglow', slotMs: 400 });
    t.after(node.stop);
    await eventually(async () => {
      const height = await node.call<number>('getBlockHeight', []);
      return height > 6 ? null : `the final block of the node is number ${height}`;
    });
    const expected = await answersOf(node.rpcUrl);
    await node.stop();
    const chain = await startChain({ release, consensus, firstSlot: 1 });
    t.after(() => chain.stop());
    await chain.seal(8);
    assert.deepEqual(await answersOf(chain.rpcUrl), expected);
  });
}
