/**
 * A node whose blocks carry forms beyond those of today, each between two usual transactions of one payer. It is for faults of forms only: it
 * executes nothing.
 */
import { createHash } from 'node:crypto';
import { encode, encode32, encode64 } from '../../src/lib/base58.ts';
import { type BlockForm, type FormPlace, jsonEntry } from './block-forms.ts';
import { blockOf, entryOf, sampleMessage } from './rpc-block.ts';
import { type Behaviour, type SeenCall, startUpstream, type TestUpstream } from './upstream.ts';

/** A block in an unusual form: its members as JSON text by name, laid over the usual ones; null: the member is missing. */
export interface BlockMembers {
  readonly name: string;
  readonly members: Readonly<Record<string, string | null>>;
}

const filled = (byte: number, length = 32) => new Uint8Array(length).fill(byte);
const reward = (members: string) => `[{"pubkey":"${encode32(filled(2))}",${members}}]`;

const BLOCK_MEMBERS: readonly BlockMembers[] = [
  { name: 'an empty block', members: { transactions: '[]' } },
  { name: 'another empty block behind it', members: { transactions: '[]' } },
  { name: 'no rewards', members: { rewards: null } },
  { name: 'rewards null', members: { rewards: 'null' } },
  { name: 'rewards that are no list', members: { rewards: '{"later":1}' } },
  { name: 'no block time', members: { blockTime: null } },
  { name: 'block time null', members: { blockTime: 'null' } },
  { name: 'a negative block time', members: { blockTime: '-1' } },
  { name: 'a block time of 2^63 - 1', members: { blockTime: '9223372036854775807' } },
  { name: 'no block height', members: { blockHeight: null } },
  { name: 'block height null', members: { blockHeight: 'null' } },
  { name: 'a block height of 2^64 - 1', members: { blockHeight: '18446744073709551615' } },
  { name: 'unknown members', members: { later: '{"x":[1,null]}', blockId: '"later"', footer: 'null' } },
  { name: 'reward partitions that are no number', members: { numRewardPartitions: '{"later":1}' } },
  { name: 'negative reward partitions', members: { numRewardPartitions: '-1' } },
  { name: 'reward partitions of 2^64 - 1', members: { numRewardPartitions: '18446744073709551615' } },
  {
    name: 'a reward of an unknown type',
    members: { rewards: reward('"lamports":1,"postBalance":2,"rewardType":"Later","commission":null') },
  },
  {
    name: 'VATDebit',
    members: { rewards: reward('"lamports":-800000000,"postBalance":2,"rewardType":"VATDebit","commission":null') },
  },
  {
    name: 'commission in basis points',
    members: {
      rewards: reward('"lamports":1,"postBalance":2,"rewardType":"Voting","commission":null,"commissionBps":512'),
    },
  },
  {
    name: 'block revenue of 2^63 - 1',
    members: {
      rewards: reward(
        '"lamports":9223372036854775807,"postBalance":18446744073709551615,"rewardType":"BlockRevenueSharing"',
      ),
    },
  },
  { name: 'a reward without lamports', members: { rewards: reward('"rewardType":null') } },
  { name: 'a reward that is null', members: { rewards: '[null]' } },
  {
    name: 'rewards with a fraction, a text and a list',
    members: { rewards: reward('"lamports":1.5,"postBalance":"2","rewardType":["Fee"],"commission":"7"') },
  },
];

export interface FormBlock {
  readonly name: string;
  readonly slot: number;
  /** Null for a block that is unusual itself. */
  readonly form: BlockForm | null;
  readonly place: FormPlace;
  /** base58 signatures of the two usual transactions; none in an empty block. */
  readonly neighbours: readonly string[];
  /** The block as the node sends it, by encoding. */
  text(encoding: string): string;
}

export const NEIGHBOUR_PAYER = encode32(filled(200));

function signatureOf(slot: number, number: number): Uint8Array {
  const bytes = filled(number, 64);
  bytes[0] = slot >> 8;
  bytes[1] = slot & 0xff;
  return bytes;
}

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());

/** Blocks from a slot on, each the child of the one before. `payer`: of all transactions in a form. */
export function formBlocks(firstSlot: number, forms: readonly BlockForm[], payer: Uint8Array): readonly FormBlock[] {
  let previous = filled(250);
  return [
    ...forms.map((form) => ({ form, unusual: null })),
    ...BLOCK_MEMBERS.map((unusual) => ({ form: null, unusual })),
  ].map(({ form, unusual }, number): FormBlock => {
    const slot = firstSlot + number;
    const place = { signature: signatureOf(slot, 77), payer };
    const isEmpty = unusual?.members['transactions'] === '[]';
    const previousBlockhash = previous;
    const blockhash = isEmpty ? sha256(previous) : sha256(Uint8Array.of(slot >> 8, slot & 0xff, 1));
    previous = blockhash;
    const signatures = isEmpty ? [] : [signatureOf(slot, 1), signatureOf(slot, 2)];
    const message = sampleMessage({ keys: [filled(200), filled(2), filled(3)] });
    return {
      name: form?.name ?? unusual!.name,
      slot,
      form,
      place,
      neighbours: signatures.map((signature) => encode64(signature)),
      text(encoding) {
        const [before, after] = signatures.map((signature) =>
          encoding === 'json'
            ? jsonEntry({ signature, payer: filled(200) }, { version: 'legacy', message: { instructions: PLAIN } })
            : JSON.stringify(entryOf({ message, signatures: [signature] })),
        );
        const entry = form === null ? [] : [encoding === 'json' ? (form.json ?? form.entry)(place) : form.entry(place)];
        const members: Record<string, string | null> = {
          ...Object.fromEntries(
            Object.entries({
              ...blockOf([], slot),
              rewards: [],
              blockTime: 1_700_000_000 + slot,
              blockhash: encode32(blockhash),
              previousBlockhash: encode32(previousBlockhash),
            }).map(([name, value]) => [name, JSON.stringify(value)]),
          ),
          transactions: `[${[before, ...entry, after].filter((one) => one !== undefined).join()}]`,
          ...unusual?.members,
        };
        return `{${Object.entries(members)
          .filter(([, value]) => value !== null)
          .map(([name, value]) => `"${name}":${value}`)
          .join()}}`;
      },
    };
  });
}

/** The instruction of a usual transaction, as JSON. */
const PLAIN = [{ programIdIndex: 2, accounts: [0, 1], data: encode(Uint8Array.of(1, 2, 3, 4)), stackHeight: null }];

export interface FormNode {
  readonly upstream: TestUpstream;
  /** The newest slot that it has. */
  tip: number;
}

const failed =
  (code: number, message: string) =>
  ({ id }: SeenCall): Behaviour => ({
    chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":"${message}"},"id":${JSON.stringify(id)}}`],
  });

/** `onlyJson`: the node answers every question in JSON. `refuses`: an encoding that it answers with -32602. */
interface FormNodeOptions {
  readonly onlyJson?: boolean;
  readonly refuses?: 'base64' | 'json';
}

export async function startFormNode(
  blocks: readonly FormBlock[],
  tip: number,
  { onlyJson = false, refuses }: FormNodeOptions = {},
): Promise<FormNode> {
  const upstream = await startUpstream();
  const node: FormNode = { upstream, tip };
  const first = blocks[0]!.slot;
  const blockAt = (slot: unknown) => blocks.find((block) => block.slot === slot && block.slot <= node.tip);
  upstream.on('getSlot', () => ({ result: String(node.tip) }));
  upstream.on('getVersion', { result: '{"solana-core":"4.4.0","feature-set":1}' });
  upstream.on('getFirstAvailableBlock', { result: String(first) });
  upstream.on('getBlocks', ({ params }) => {
    const [from, to] = params as [number, number | undefined];
    const last = Math.min(typeof to === 'number' ? to : node.tip, node.tip);
    return { result: JSON.stringify(blocks.map(({ slot }) => slot).filter((slot) => slot >= from && slot <= last)) };
  });
  upstream.on('getBlockTime', ({ params }) => ({
    result: String(1_700_000_000 + (params as [number])[0]),
  }));
  upstream.on('getBlock', (call) => {
    const [slot, { encoding = 'json', transactionDetails = 'full' }] = call.params as [
      number,
      { encoding?: string; transactionDetails?: string },
    ];
    const block = blockAt(slot);
    if (block === undefined) return failed(-32004, `Block not available for slot ${slot}`)(call);
    if (encoding === refuses) return failed(-32602, `Invalid params: ${encoding} is not supported`)(call);
    const text = block.text(onlyJson ? 'json' : encoding);
    if (transactionDetails === 'full') return { result: text };
    const { transactions: _, ...rest } = JSON.parse(text) as Record<string, unknown>;
    return { result: JSON.stringify(rest) };
  });
  upstream.on('getTransaction', { result: 'null' });
  upstream.on('getSignaturesForAddress', { result: '[]' });
  return node;
}
