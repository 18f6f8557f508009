import { LRUCache } from 'lru-cache';
import {
  type ChainReader,
  type Clock,
  type Log,
  messageOf,
  RequestError,
  type Store,
} from '../../../src/plugin/plugin.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { createSingleFlight } from '../../../src/runtime/single-flight.ts';
import { DeadlinePassed, withDeadline } from '../../../src/runtime/waiting.ts';
import type { FetchTransactions, ProjectAsker } from '../fetch.ts';
import { readRevisions } from '../revisions.ts';
import { fillVersions, MAX_VERSIONS } from '../store.ts';
import { accountsOf, listBefore, listBoth } from './accounts.ts';
import type { PublishedCache } from './cache.ts';
import { filledOf, isInDoubt, newestOf, type Published } from './versions.ts';

/** How long a call waits for former interfaces, and how long they are looked for. */
const WAIT_MS = 20_000;
const MAX_MS = 600_000;
const RETRY_S = 5;
/** Look-backs at the same time. */
const MAX_AT_ONCE = 8;
const MAX_WAITING = 256;
const MAX_FAILURES = 3;
const REST_MS = 600_000;
const MAX_STATES = 16_384;

/**
 * The look-back of one program. `due`: former interfaces were not looked for since its newest version was added; `done`: they were, as far as they can
 * be found; `resting`: that failed too often, and begins again at `untilMs` (monotonic).
 */
type LookBackState =
  | { readonly mode: 'due'; readonly failures: number }
  | { readonly mode: 'done' }
  | { readonly mode: 'resting'; readonly untilMs: number };

const DUE: LookBackState = { mode: 'due', failures: 0 };

interface LookBackParts {
  readonly cache: PublishedCache;
  readonly clock: Clock;
  readonly log: Log;
  readonly fetch: FetchTransactions;
  readonly store: () => Store;
  readonly timeoutMs: number;
}

/** Reads the former interfaces of programs from the transactions that wrote them, each program once. */
export class LookBacks {
  private readonly parts: LookBackParts;
  private readonly running = createSingleFlight<string, Published>();
  /** Look-backs of all projects run at once; those of one project wait for each other. */
  private readonly places = createSemaphore({
    concurrency: MAX_AT_ONCE,
    perGroup: MAX_AT_ONCE / 4,
    maxWaiting: MAX_WAITING,
  });
  /** For programs that are not `DUE`. */
  private readonly states = new LRUCache<string, LookBackState>({ max: MAX_STATES });

  constructor(parts: LookBackParts) {
    this.parts = parts;
  }

  isDue(program: string): boolean {
    const state = this.states.get(program) ?? DUE;
    return state.mode === 'due' || (state.mode === 'resting' && this.parts.clock.monotonic() >= state.untilMs);
  }

  /** A version was added: there may be others before it. */
  noteVersion(program: string): void {
    if (this.states.get(program)?.mode === 'done') this.states.delete(program);
  }

  /** The program left the cache, and with it its former interfaces. */
  forget(program: string): void {
    this.states.delete(program);
  }

  /**
   * What is known with the former interfaces. The reading goes on when this call no longer waits for it: a call that comes later finds more
   * of it done. Errors: RequestError 503 while it goes on or must wait for others, and those of the reading.
   */
  async read(reader: ChainReader, program: string, known: Published, asker: ProjectAsker): Promise<Published> {
    const running = this.running.get(program) ?? this.start(reader, program, known, asker);
    if (running === null) throw beingRead(program);
    try {
      return await withDeadline(this.parts.clock, WAIT_MS, () => running, asker.signal);
    } catch (error) {
      if (!(error instanceof DeadlinePassed)) throw error;
      throw beingRead(program, error);
    }
  }

  /** Null: too many wait already. */
  private start(
    reader: ChainReader,
    program: string,
    known: Published,
    { tenant }: ProjectAsker,
  ): Promise<Published> | null {
    const permit = this.places.acquire({ group: tenant.id });
    if (permit === null) return null;
    const work = this.running.run(program, async () => {
      const release = await permit;
      try {
        return await withDeadline(this.parts.clock, MAX_MS, (signal) =>
          this.readBack(reader, program, known, { signal, tenant }),
        );
      } finally {
        release();
      }
    });
    work.catch((error: unknown) => this.failed(program, error));
    return work;
  }

  private failed(program: string, error: unknown): void {
    const { clock, log } = this.parts;
    const state = this.states.get(program) ?? DUE;
    const failures = (state.mode === 'due' ? state.failures : 0) + 1;
    if (failures < MAX_FAILURES && !(error instanceof DeadlinePassed)) {
      this.states.set(program, { mode: 'due', failures });
      return;
    }
    // Calls with transactions of this program must not fail forever: for a while its interface counts as unknown.
    this.states.set(program, { mode: 'resting', untilMs: clock.monotonic() + REST_MS });
    log.warn({ program, error: messageOf(error) }, 'former interfaces of a program cannot be read');
  }

  private async readBack(
    reader: ChainReader,
    program: string,
    first: Published,
    asker: ProjectAsker,
  ): Promise<Published> {
    const { cache, log, fetch, store, timeoutMs } = this.parts;
    const options = { ...asker, timeoutMs };
    const [metadata, anchor] = accountsOf(program);
    const slot = first.checkedSlot;
    const revisions = await readRevisions(
      { program, metadata, anchor },
      {
        lists: await listBoth(reader, program, slot, options),
        listBefore: (address, before) => listBefore(reader, address, before, options),
        fetch,
      },
      { slot, most: MAX_VERSIONS, mostCharacters: cache.mostCharacters },
      asker,
    );
    const current = (): Published => cache.get(program) ?? first;
    const known = current();
    const gaps = isInDoubt(known) ? null : filledOf(known.versions, revisions);
    if (gaps === null)
      log.info({ program }, 'the transactions that wrote an interface do not lead to its current content');
    if (gaps !== null && gaps.added.length + gaps.moved.length > 0) await fillVersions(store(), program, gaps);
    // Blocks, forks and other readings go on meanwhile.
    const now = current();
    const filling = isInDoubt(now) ? null : filledOf(now.versions, revisions);
    // Nothing was read about versions added since then, or about gaps between them.
    const isWhole = now.versions.at(-1)?.from === first.versions.at(-1)?.from;
    if (isWhole && cache.get(program) !== undefined) this.states.set(program, { mode: 'done' });
    else this.states.delete(program);
    if (filling === null || filling.added.length + filling.moved.length === 0) return now;
    const versions = filling.versions.map(({ text, ...one }) =>
      text === undefined ? one : { ...one, ...cache.readable(text) },
    );
    const found = { ...now, versions: newestOf(versions, cache.mostCharacters) };
    cache.set(program, found);
    return found;
  }
}

const beingRead = (program: string, cause?: unknown): RequestError =>
  new RequestError(503, `Service unavailable: former interfaces of ${program} are being read`, {
    retryAfterS: RETRY_S,
    cause,
  });
