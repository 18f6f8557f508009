/** What one process of the simulated daemon sees of the world, until it is killed at one of its writes. */
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbound } from '../../../src/ports/outbound.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';

export interface Life {
  isDead: boolean;
  /** Of the clock that never jumps; null while it lives. */
  diedAtMs: number | null;
  /** How many more writes it lives; it ends before, inside or after the commit of the last one. */
  writesToLive: number;
}

export const newLife = (): Life => ({ isDead: false, diedAtMs: null, writesToLive: Number.POSITIVE_INFINITY });

/** The same for all processes. */
export interface StoreFaults {
  /** Share of the writes that fail. */
  writes: number;
  /** Writes wait so long at most before they begin. */
  slowMs: number;
  /** Whether they also fail because the disk is full or broken, which ends the process. */
  readonly isHarsh: boolean;
}

/** Lives from this seed on draw all kinds of faults; those below are repeated as they were when there were fewer. */
export const ALL_FAULTS_FROM = 1_000_000;

const killed = () => new CodedError('STORE_CLOSED', 'the process was killed');
const busy = () => new CodedError('STORE_BUSY', 'the database was locked', { exitCode: 75, retryable: true });
const full = () => new CodedError('STORE_FULL', 'the disk is full', { exitCode: 75 });
const unwritable = () => new CodedError('STORE_IO', 'the database could not write its files', { exitCode: 75 });
/** Most trouble passes; a full disk or one that fails ends the process. */
const REFUSALS = [busy, busy, busy, busy, full, unwritable];
const broken = () => new CodedError('STORE_UNREACHABLE', 'the connection broke', { exitCode: 75, retryable: true });

/**
 * Writes fail before anything happened, within the transaction, and after the commit whose answer is lost: nobody is told of it then. The
 * dead write nothing.
 */
export function storeOf(life: Life, faults: StoreFaults, store: Store, draw: Sfc32, clock: Clock): Store {
  const fails = () => draw.float() < faults.writes;
  return {
    ...store,
    async write(work) {
      if (faults.slowMs > 0) await clock.sleep(draw.below(faults.slowMs));
      if (life.isDead) throw killed();
      life.writesToLive -= 1;
      const diesAt = life.writesToLive < 0 ? draw.below(3) : -1;
      if (diesAt >= 0) Object.assign(life, { isDead: true, diedAtMs: clock.monotonic() });
      if (diesAt === 0) throw killed();
      if (fails()) throw (faults.isHarsh ? REFUSALS[draw.below(REFUSALS.length)]! : busy)();
      const breaksInside = fails();
      const told: (() => void)[] = [];
      const result = await store.write(async (tx) => {
        const value = await work({ ...tx, onCommit: (fn) => void told.push(fn) });
        // Also when another write of this process was the last one.
        if (diesAt === 1 || (life.isDead && diesAt < 0)) throw killed();
        if (breaksInside) throw broken();
        return value;
      });
      if (diesAt === 2) throw killed();
      if (fails()) throw broken();
      for (const tell of told) tell();
      return result;
    },
  };
}

/** The dead send nothing, and what they have sent is out. */
export function outboundOf(life: Life, outbound: Outbound): Outbound {
  return {
    open(policy) {
      const client = outbound.open(policy);
      return {
        ...client,
        async request(request) {
          if (life.isDead) throw new CodedError('OUTBOUND_CONNECT', 'the process was killed');
          return await client.request(request);
        },
      };
    },
  };
}
