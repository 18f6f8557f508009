import type { CoreConfig } from '../../../config/core.ts';
import { CodedError, EXIT } from '../../../lib/coded-error.ts';
import type { BlockHeader, ChainBlock } from '../../../ports/block.ts';
import type { AskOptions, BlockAnswer, BlockStream } from '../../../ports/chain.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log, Metrics } from '../../../ports/telemetry.ts';
import type { UpstreamPool, UpstreamQuorum } from '../../../ports/upstream.ts';
import { type Agreement, Votes } from '../../../runtime/votes.ts';
import { backoffMs, orAborted } from '../../../runtime/waiting.ts';

/** Error: CONFIG_INVALID. */
export function checkQuorum(agree: number, total: number): void {
  if (agree === 0 || (agree <= total && agree * 2 > total)) return;
  const problem = `upstream.quorum.agree is ${agree}, with ${total} upstreams: it must be more than half of them, and at most all`;
  throw new CodedError('CONFIG_INVALID', problem, { exitCode: EXIT.config, facts: { problems: [problem] } });
}

export interface QuorumOptions {
  readonly core: CoreConfig;
  readonly metrics: Metrics;
  readonly pool: Pick<UpstreamPool, 'candidates' | 'states'>;
}

export function createQuorum({ core, metrics, pool }: QuorumOptions): UpstreamQuorum {
  const { quorum } = core.upstream;
  const outcomes = metrics.counter('quorum_total', 'questions that several upstreams had to answer alike, by outcome', [
    'outcome',
  ]);
  // A reload may have changed the number of upstreams: two answers must never be agreed at once.
  const needed = () => (quorum.agree === 0 ? 0 : Math.max(quorum.agree, Math.floor(pool.states().length / 2) + 1));
  return {
    needed,
    total: () => pool.states().length,
    concerns: (method) => quorum.agree > 0 && quorum.methods.includes(method),
    waitMs: () => quorum.waitMs,
    voters() {
      const healthy = pool.candidates({ healthyOnly: true, exceptLimited: true });
      return healthy.length >= needed() ? healthy : pool.candidates();
    },
    count: (outcome) => outcomes.with(outcome).add(),
  };
}

/** Blocks whose identity (slot, blockhash, parent) enough upstreams confirm. */
export interface AgreedBlocks {
  isOn(): boolean;
  /** See `ChainSource.block`. Error: CHAIN_NO_QUORUM. */
  block(slot: number, options: AskOptions): Promise<BlockAnswer>;
  /** See `ChainSource.header`. Error: CHAIN_NO_QUORUM. */
  header(slot: number, options: AskOptions): Promise<BlockHeader | null>;
  /** Pushes only blocks that are agreed on, in the order of the stream. */
  stream(given: BlockStream): BlockStream;
  /** Why the lowest slot above this one has no agreed block though upstreams contradict each other; null: not the case. */
  trouble(aboveSlot: number): string | null;
}

export interface AgreedBlocksOptions {
  readonly pool: UpstreamPool;
  readonly quorum: UpstreamQuorum;
  readonly clock: Clock;
  readonly log: Log;
  /** The block of one upstream. */
  readonly block: (slot: number, options: AskOptions) => Promise<BlockAnswer>;
  /** The header that one upstream has; null: it says that it has none. Throws when it does not answer. */
  readonly headerOf: (label: string, slot: number, options: AskOptions) => Promise<BlockHeader | null>;
}

const identityOf = ({ blockhash, parentSlot, previousBlockhash }: BlockHeader): string =>
  `${blockhash} on ${parentSlot} ${previousBlockhash}`;

/** Between two questions to the same upstream about one block. */
const AGAIN = { firstMs: 50, longestMs: 1_000 } as const;
/** Slots whose disagreement is remembered. */
const MAX_TROUBLES = 64;
/** Pushed blocks that wait for their votes; what comes beyond that is fetched later. */
const MAX_PUSHED = 128;

type HeaderVotes = Votes<BlockHeader>;

/**
 * A block counts when enough upstreams name the same one. Votes are asked for beside the block itself; `troubles` has the slots in which they
 * disagree, `named` those in which an upstream was already accused, so that repeated answers are one lie.
 */
class VotedBlocks implements AgreedBlocks {
  private readonly options: AgreedBlocksOptions;
  private readonly troubles = new Map<number, string>();
  /** The highest slot for which an upstream was named: repeated answers about one block are one lie. */
  private readonly named = new Map<string, Set<number>>();

  constructor(options: AgreedBlocksOptions) {
    this.options = options;
  }

  /** Asks each of them once. The promise resolves when all have answered; `cast` is called after each vote. */
  private async ask(
    labels: readonly string[],
    slot: number,
    asked: AskOptions,
    votes: HeaderVotes,
    cast: () => void = () => undefined,
  ): Promise<{ readonly failed: number }> {
    let failed = 0;
    await Promise.all(
      labels.map(async (label) => {
        try {
          const header = await this.options.headerOf(label, slot, {
            commitment: asked.commitment,
            signal: asked.signal,
          });
          if (header === null) return;
          votes.cast({ voter: label, key: identityOf(header), value: header });
          cast();
        } catch {
          failed += 1;
        }
      }),
    );
    return { failed };
  }

  /** Resolves as soon as enough agree, or with null when all were asked. The votes that come later still name who lied. */
  private askUntilAgreed(
    labels: readonly string[],
    slot: number,
    asked: AskOptions,
    votes: HeaderVotes,
  ): Promise<{ readonly agreed: Agreement<BlockHeader> | null; readonly failed: number }> {
    return new Promise((resolve) => {
      const end = (failed: number) => resolve({ agreed: votes.agreed(), failed });
      const onVote = () => {
        if (votes.agreed() !== null) end(0);
      };
      onVote();
      void this.ask(labels, slot, asked, votes, onVote).then(({ failed }) => {
        end(failed);
        this.conclude(slot, asked, votes);
      });
    });
  }

  /** Names those that said something else about a block that can no longer change. */
  private conclude(slot: number, { commitment, signal }: AskOptions, votes: HeaderVotes): void {
    const agreed = votes.agreed();
    if (agreed === null || commitment !== 'finalized' || signal.aborted) return;
    for (const { voter, key } of votes.against(agreed.key)) {
      const upstream = this.options.pool.candidates().find(({ label }) => label === voter);
      if (upstream === undefined || !this.accused(voter, slot)) continue;
      this.options.log.error(
        { event: 'upstream.outvoted', upstream: voter, slot, says: key, others: agreed.key, voters: agreed.voters },
        'an upstream names another block than the others and is left out for a while',
      );
      const reason = `block ${slot}: it says ${key}, ${agreed.voters.join(', ')} say ${agreed.key}`;
      this.options.pool.report(upstream, { kind: 'contradicted', reason });
    }
  }

  private accused(voter: string, slot: number): boolean {
    const slots = this.named.get(voter) ?? new Set<number>();
    this.named.set(voter, slots);
    if (slots.has(slot)) return false;
    slots.add(slot);
    if (slots.size > MAX_TROUBLES) slots.delete(slots.values().next().value as number);
    return true;
  }

  /** Asks those without a vote until enough agree. Null: all of them say that there is no such block. Error: CHAIN_NO_QUORUM. */
  private async agree(slot: number, asked: AskOptions, votes: HeaderVotes): Promise<Agreement<BlockHeader> | null> {
    const untilMs = this.options.clock.monotonic() + this.options.quorum.waitMs();
    for (let attempts = 1; ; attempts += 1) {
      const labels = this.options.quorum.voters().flatMap(({ label }) => (votes.has(label) ? [] : [label]));
      const { agreed, failed } = await this.askUntilAgreed(labels, slot, asked, votes);
      asked.signal.throwIfAborted();
      if (agreed !== null) {
        this.troubles.delete(slot);
        this.options.quorum.count('agreed');
        return agreed;
      }
      if (votes.count === 0 && failed === 0 && labels.length >= this.options.quorum.needed()) return null;
      if (votes.count >= this.options.quorum.total() || this.options.clock.monotonic() >= untilMs)
        throw this.refuse(slot, votes);
      await this.options.clock.sleep(backoffMs(attempts, null, AGAIN), asked.signal);
    }
  }

  private refuse(slot: number, votes: HeaderVotes): CodedError {
    const { kind, text } = votes.disagreement(this.options.quorum.total());
    this.options.quorum.count(kind);
    if (kind === 'tie') {
      if (!this.troubles.has(slot))
        this.options.log.error({ event: 'upstream.tie', slot, votes: text }, 'upstreams disagree on a block');
      this.troubles.set(slot, `block ${slot}: ${text}`);
      if (this.troubles.size > MAX_TROUBLES) this.troubles.delete(Math.max(...this.troubles.keys()));
    }
    return new CodedError('CHAIN_NO_QUORUM', `block ${slot}: ${text}`, { retryable: true, facts: { slot } });
  }

  async block(slot: number, asked: AskOptions): Promise<BlockAnswer> {
    const votes: HeaderVotes = new Votes(this.options.quorum.needed());
    // The one that is likely to send the block votes with it.
    const [sender] = this.options.pool.candidates({ avoid: asked.avoid ?? [], exceptLimited: true });
    const others = this.options.quorum.voters().flatMap(({ label }) => (label === sender?.label ? [] : [label]));
    const early = this.askUntilAgreed(others, slot, asked, votes);
    const answer = await this.options.block(slot, asked);
    if (answer.kind === 'not-yet') return answer;
    if (answer.kind !== 'block') {
      // That a slot is empty is a claim too: where enough others name its block, they are asked for it.
      await Promise.race([early, this.options.clock.sleep(this.options.quorum.waitMs(), asked.signal)]);
      const known = votes.agreed();
      return known === null ? answer : await this.blockOf(known, slot, asked);
    }
    votes.cast({ voter: answer.upstream, key: identityOf(answer.block), value: answer.block });
    if (votes.agreed() === null) await orAborted(early, asked.signal);
    const agreed = votes.agreed() ?? (await this.agree(slot, asked, votes));
    this.conclude(slot, asked, votes);
    if (agreed === null) return { kind: 'not-yet', upstream: answer.upstream };
    this.troubles.delete(slot);
    return identityOf(answer.block) === agreed.key ? answer : await this.blockOf(agreed, slot, asked);
  }

  /** The block from one of those that agree. */
  private async blockOf(agreed: Agreement<BlockHeader>, slot: number, asked: AskOptions): Promise<BlockAnswer> {
    const avoid = this.options.pool.states().flatMap(({ label }) => (agreed.voters.includes(label) ? [] : [label]));
    const right = await this.options.block(slot, { ...asked, avoid });
    const isAgreed = right.kind !== 'block' || identityOf(right.block) === agreed.key;
    return isAgreed ? right : { kind: 'not-yet', upstream: right.upstream };
  }

  isOn(): boolean {
    return this.options.quorum.needed() > 0;
  }

  readonly header: AgreedBlocks['header'] = async (slot, asked) => {
    const agreed = await this.agree(slot, asked, new Votes(this.options.quorum.needed()));
    return agreed?.value ?? null;
  };

  readonly stream: AgreedBlocks['stream'] = (given) => ({
    start: () => given.start(),
    open: async (opened) => {
      let waiting = 0;
      let last: Promise<unknown> = Promise.resolve();
      const isAgreed = async (pushed: ChainBlock): Promise<boolean> => {
        const asked = { commitment: opened.commitment, signal: opened.signal };
        const agreed = await this.agree(pushed.slot, asked, new Votes(this.options.quorum.needed())).catch(() => null);
        if (agreed === null || opened.signal.aborted) return false;
        if (agreed.key === identityOf(pushed)) return true;
        this.options.log.error(
          { event: 'upstream.outvoted', upstream: 'stream', slot: pushed.slot, says: identityOf(pushed) },
          'the stream pushed another block than the upstreams have; it is dropped',
        );
        return false;
      };
      return await given.open({
        ...opened,
        onBlock: (pushed) => {
          if (this.options.quorum.needed() === 0) return opened.onBlock(pushed);
          if (waiting >= MAX_PUSHED) return;
          waiting += 1;
          const voted = isAgreed(pushed);
          last = last.then(async () => {
            if (await voted) opened.onBlock(pushed);
            waiting -= 1;
          });
        },
      });
    },
  });

  readonly trouble: AgreedBlocks['trouble'] = (aboveSlot) => {
    for (const slot of [...this.troubles.keys()]) if (slot <= aboveSlot) this.troubles.delete(slot);
    const slots = [...this.troubles.keys()];
    return slots.length === 0 ? null : this.troubles.get(Math.min(...slots))!;
  };
}

export const createAgreedBlocks = (options: AgreedBlocksOptions): AgreedBlocks => new VotedBlocks(options);
