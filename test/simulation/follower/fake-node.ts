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
  /** Nobody can connect to it. */
  isDown: boolean;
  /** How often whole blocks were asked for, by slot. */
  readonly asked: Map<number, number>;
  /** Serves the chain as it was then. */
  frozen: { readonly chain: readonly WorldBlock[]; readonly finalizedSlot: number } | null;
}

export const honest = (label: string): FakeUpstream => ({
  ...{ label, lag: 0, slowMs: 0, failRate: 0, unwellRate: 0, wrongSkipRate: 0, hideRate: 0, notYetRate: 0, lieRate: 0 },
  ...{ brokenRate: 0, tipBackBy: 0, lost: new Set<number>(), prunedBelow: 0, frozen: null },
  ...{ wrongPruneRate: 0, elsewhere: null, isDown: false, asked: new Map<number, number>() },
});

/** Raw JSON of a result, or an error object. */
export type NodeAnswer =
  | { readonly result: string }
  | { readonly error: { readonly code: number; readonly message: string } };

type Details = { readonly commitment?: string; readonly transactionDetails?: string };
/** Behind, not yet stored, context too new, archive gone, something new. */
const UNWELL = [-32005, -32014, -32016, -32019, -39_999];

/** What a node with this view of the world answers to the calls that following makes. */
export function createFakeNode(world: World, upstream: FakeUpstream, random: Sfc32) {
  const fail = (code: number, message: string): NodeAnswer => ({ error: { code, message } });

  function view(commitment: string | undefined): readonly WorldBlock[] {
    const { chain: all, finalizedSlot } = upstream.elsewhere ?? upstream.frozen ?? world;
    const seen = all.slice(0, Math.max(1, all.length - upstream.lag));
    return commitment === 'confirmed' ? seen : seen.filter((block) => block.slot <= finalizedSlot);
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

  function block(slot: number, { commitment, transactionDetails }: Details): NodeAnswer {
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
    if (random.float() < upstream.brokenRate) return { result: broken(found, random) };
    return { result: blockText(random.float() < upstream.lieRate ? forge(found, random) : found) };
  }

  return (method: string, params: readonly unknown[]): NodeAnswer => {
    if (random.float() < upstream.unwellRate) return fail(UNWELL[random.below(UNWELL.length)]!, 'not now');
    switch (method) {
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
      default:
        return accountAnswer(method, params, view) ?? fail(-32601, 'Method not found');
    }
  };
}

/** A block that is well-formed and not of the chain. */
function forge(block: WorldBlock, random: Sfc32): WorldBlock {
  const lies: readonly Partial<WorldBlock>[] = [
    { blockhash: block.forgedHash },
    // Never the name of a forged block: links are all there is, and lies that agree with each other cannot be told from the truth.
    { previousBlockhash: block.falseLink },
    // Not below the first slot of all: where nothing was released yet, nothing could contradict it.
    { parentSlot: Math.max(FIRST_SLOT, block.parentSlot - 1) },
    { parentSlot: block.slot - 1 },
  ];
  return { ...block, ...lies[random.below(lies.length)] };
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
    { transactions: [...parsed.transactions, { transaction: ['AAAA', 'base64'], meta: null }] },
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
