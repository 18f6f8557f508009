import { ALPENGLOW_CERTIFICATE } from '../../../src/solana/programs.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { accountAnswer } from './fake-accounts.ts';
import { blockText, FIRST_SLOT, headerText, signaturesText, type World, type WorldBlock } from './world.ts';

/** How one upstream misbehaves; rates are 0 to 1 per call. */
export interface FakeUpstream {
  readonly label: string;
  /** Blocks that it is behind. */
  lag: number;
  /** What each answer takes longer. */
  slowMs: number;
  /** Calls that fail on the way: statuses, resets, time-outs, half and foreign bodies. */
  failRate: number;
  /** Answers with one of the errors that mean "later" or "not me". */
  unwellRate: number;
  /** Says "skipped" for blocks that exist. */
  wrongSkipRate: number;
  /** Leaves slots out of lists. */
  hideRate: number;
  notYetRate: number;
  /** Serves well-formed blocks with a forged hash or link. */
  lieRate: number;
  /** Changes every block that it serves; null: none. */
  lies: ((block: WorldBlock) => Partial<WorldBlock>) | null;
  /** Serves blocks that contradict themselves. */
  brokenRate: number;
  /** Slots by which its tip jumps back, drawn for each call. */
  tipBackBy: number;
  /** Says "skipped" for these for ever. */
  readonly lost: Set<number>;
  /** Has nothing below. */
  prunedBelow: number;
  /** Says of blocks that it lists and has that they are gone. */
  wrongPruneRate: number;
  /** Is another chain now. */
  elsewhere: World | null;
  /** Serves this made-up chain, whose links agree, under our genesis hash. */
  fabricated: World | null;
  /** Version of Agave. Before 4.3 it cannot pass the move to Alpenglow, and knows no certificate. */
  version: string;
  /** A proxy or another client that lacks the method of the certificate. */
  lacksCertificate: boolean;
  /** Answers -32602 to `confirmed`. */
  refusesConfirmed: boolean;
  /** Nobody can connect to it. */
  isDown: boolean;
  /** How often whole blocks were asked for, by slot. */
  readonly asked: Map<number, number>;
  /** Serves the chain as it was then. */
  frozen: { readonly chain: readonly WorldBlock[]; readonly finalizedSlot: number } | null;
}

export const honest = (label: string): FakeUpstream => ({
  label,
  lag: 0,
  slowMs: 0,
  failRate: 0,
  unwellRate: 0,
  wrongSkipRate: 0,
  hideRate: 0,
  notYetRate: 0,
  lieRate: 0,
  lies: null,
  brokenRate: 0,
  tipBackBy: 0,
  lost: new Set<number>(),
  prunedBelow: 0,
  frozen: null,
  wrongPruneRate: 0,
  elsewhere: null,
  fabricated: null,
  isDown: false,
  asked: new Map<number, number>(),
  version: '4.4.0',
  lacksCertificate: false,
  refusesConfirmed: false,
});

/** Raw JSON of a result, or an error object. */
export type NodeAnswer =
  | { readonly result: string }
  | { readonly error: { readonly code: number; readonly message: string } };

type Details = { readonly commitment?: string; readonly transactionDetails?: string; readonly encoding?: string };
/** Behind, not yet stored, context too new, archive gone, something new. */
const UNWELL = [-32005, -32014, -32016, -32019, -39_999];

/** What a node with this view of the world answers to the calls that following makes. */
export function createFakeNode(world: World, upstream: FakeUpstream, random: Sfc32) {
  const fail = (code: number, message: string): NodeAnswer => ({ error: { code, message } });

  function view(commitment: string | undefined): readonly WorldBlock[] {
    const { chain: known, finalizedSlot } = upstream.elsewhere ?? upstream.fabricated ?? upstream.frozen ?? world;
    const all = isOld() ? known.filter(({ slot }) => slot <= (world.genesisSlot as number)) : known;
    const seen = all.slice(0, Math.max(1, all.length - upstream.lag));
    return commitment === 'confirmed' ? seen : seen.filter((block) => block.slot <= finalizedSlot);
  }

  /** Left behind at the move to Alpenglow. */
  const isOld = () => world.genesisSlot !== null && /^4\.[0-2]\./.test(upstream.version);

  /** As `getAgGenesisCert` of that version, once its finalized bank has the account. */
  function certificate(): object | null {
    if (world.genesisSlot === null || isOld() || (view('finalized').at(-1)?.slot ?? 0) <= world.genesisSlot)
      return null;
    const block = { slot: world.genesisSlot, blockId: new Array(32).fill(0) };
    return { block, signature: { signature: new Array(192).fill(0), bitmap: [0, 0, 0] } };
  }

  function certificateAccount(): object | null {
    if (certificate() === null) return null;
    const bytes = Buffer.alloc(8 + 32 + 192 + 8 + 3);
    bytes.writeBigUInt64LE(BigInt(world.genesisSlot as number), 0);
    bytes.writeBigUInt64LE(3n, 8 + 32 + 192);
    return {
      owner: '11111111111111111111111111111111',
      data: [bytes.toString('base64'), 'base64'],
      lamports: 2_582_160,
    };
  }

  function tip({ commitment }: Details): NodeAnswer {
    const slot = view(commitment).at(-1)?.slot ?? 0;
    return { result: String(Math.max(0, slot - (upstream.tipBackBy === 0 ? 0 : random.below(upstream.tipBackBy)))) };
  }

  function produced(from: number, to: number, { commitment }: Details): NodeAnswer {
    const slots = view(commitment)
      .map(({ slot }) => slot)
      .filter((slot) => slot >= Math.max(from, upstream.prunedBelow) && slot <= to);
    return { result: JSON.stringify(slots.filter(() => random.float() >= upstream.hideRate)) };
  }

  function block(slot: number, { commitment, transactionDetails, encoding }: Details): NodeAnswer {
    const blocks = view(commitment);
    if (slot < upstream.prunedBelow) return fail(-32001, `Block ${slot} cleaned up`);
    if (slot > (blocks.at(-1)?.slot ?? 0)) return fail(-32004, `Block not available for slot ${slot}`);
    const wantsHeader = transactionDetails === 'none' || transactionDetails === 'signatures';
    if (!wantsHeader && random.float() < upstream.notYetRate)
      return random.float() < 0.5 ? { result: 'null' } : fail(-32004, `Block not available for slot ${slot}`);
    if (!wantsHeader) upstream.asked.set(slot, (upstream.asked.get(slot) ?? 0) + 1);
    if (upstream.wrongPruneRate > 0 && random.float() < upstream.wrongPruneRate)
      return fail(random.float() < 0.5 ? -32001 : -32011, `Block ${slot} cleaned up`);
    const found = blocks.find((candidate) => candidate.slot === slot);
    const denies = upstream.lost.has(slot) || (!wantsHeader && random.float() < upstream.wrongSkipRate);
    if (found === undefined || denies) return fail(random.float() < 0.5 ? -32007 : -32009, `Slot ${slot} was skipped`);
    if (transactionDetails === 'signatures') return { result: signaturesText(found) };
    if (wantsHeader) return { result: headerText(found) };
    if (encoding === 'json') return fail(-32603, 'Internal error');
    if (random.float() < upstream.brokenRate) return { result: broken(found, random) };
    if (upstream.lies !== null) return { result: blockText({ ...found, ...upstream.lies(found) }) };
    if (random.float() >= upstream.lieRate) return { result: blockText(found) };
    return { result: blockText(forge(found, random, (upstream.elsewhere ?? world).sharesEmptyHashes)) };
  }

  return (method: string, params: readonly unknown[]): NodeAnswer => {
    if (random.float() < upstream.unwellRate) return fail(UNWELL[random.below(UNWELL.length)]!, 'not now');
    if (upstream.refusesConfirmed && JSON.stringify(params ?? []).includes('"confirmed"'))
      return fail(-32602, 'Invalid params: unknown variant `confirmed`, expected `processed` or `finalized`.');
    if (method === 'getAgGenesisCert' && upstream.lacksCertificate) return fail(-32601, 'Method not found');
    switch (method) {
      case 'getAgGenesisCert':
        return { result: JSON.stringify(certificate()) };
      case 'getVersion':
        return { result: JSON.stringify({ 'solana-core': upstream.version, 'feature-set': 1 }) };
      case 'getSlot':
        return tip(params[0] as Details);
      case 'getBlocks':
        return produced(params[0] as number, params[1] as number, params[2] as Details);
      case 'getBlock':
        return block(params[0] as number, params[1] as Details);
      case 'getGenesisHash':
        return { result: JSON.stringify((upstream.elsewhere ?? world).genesisHash) };
      case 'getFirstAvailableBlock':
        return { result: String(Math.max((upstream.elsewhere ?? world).chain[0]!.slot, upstream.prunedBelow)) };
      case 'getAccountInfo':
        if (params[0] === ALPENGLOW_CERTIFICATE)
          return { result: JSON.stringify({ context: { slot: 1 }, value: certificateAccount() }) };
        return accountAnswer(method, params, view) ?? fail(-32601, 'Method not found');
      default:
        return accountAnswer(method, params, view) ?? fail(-32601, 'Method not found');
    }
  };
}

/** A block that is well-formed and not of the chain. */
function forge(block: WorldBlock, random: Sfc32, sharesHashes: boolean): WorldBlock {
  const lies: readonly Partial<WorldBlock>[] = [
    { blockhash: block.forgedHash },
    // Never the name of a forged block: links are all there is, and lies that agree with each other cannot be told from the truth.
    { previousBlockhash: block.falseLink },
    // Not below the first slot of all: where nothing was released yet, nothing could contradict it.
    { parentSlot: Math.max(FIRST_SLOT, block.parentSlot - 1) },
    { parentSlot: block.slot - 1 },
  ];
  // Where siblings share a name, a false slot may name one that was dropped: such a lie agrees with what was true.
  const told = sharesHashes ? lies.slice(0, 2) : lies;
  return { ...block, ...told[random.below(told.length)] };
}

/** A block that no node may send. */
function broken(block: WorldBlock, random: Sfc32): string {
  const text = blockText(block);
  const parsed = JSON.parse(text) as Record<string, unknown> & { transactions: unknown[] };
  const first = parsed.transactions[0] as { meta: object } | undefined;
  const changes: readonly object[] = [
    { parentSlot: block.slot },
    { parentSlot: block.slot + 3 },
    { blockhash: undefined },
    { blockhash: 'no hash' },
    { previousBlockhash: null },
    { transactions: undefined },
    { transactions: 'none' },
    ...(first === undefined ? [] : contradictions(parsed.transactions, first)),
  ];
  return JSON.stringify({ ...parsed, ...changes[random.below(changes.length)] });
}

/** A transaction twice, an index that points nowhere, a list of another length. */
function contradictions(transactions: readonly unknown[], first: { meta: object }): readonly object[] {
  const inner = { programIdIndex: 2, accounts: [], data: '', stackHeight: 2 };
  const metas: readonly object[] = [
    { innerInstructions: [{ index: 1, instructions: [inner] }] },
    { innerInstructions: [{ index: 0, instructions: [{ ...inner, accounts: [7] }] }] },
    { preBalances: [1] },
  ];
  return [
    { transactions: [...transactions, first] },
    ...metas.map((meta) => ({
      transactions: [{ ...first, meta: { ...first.meta, ...meta } }, ...transactions.slice(1)],
    })),
  ];
}
