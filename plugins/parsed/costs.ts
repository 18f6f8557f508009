/**
 * How long interfaces take to decode. Anybody can upload or publish one, and it says how its instructions are read: one that takes too long
 * is set aside for a while, and no project takes more than its time of a block.
 */
import { type Clock, RequestError } from '../../src/plugin/plugin.ts';
import type { ProgramInterface } from '../../src/solana/idl/read-idl.ts';

/** Mean time of one instruction; usual interfaces take some microseconds. */
const MAX_MEAN_MS = 1;
/** An interface is set aside after this many slow decodes, if they are at least 1/`SLOW_PART` of all: a busy machine makes a few slow. */
const MIN_SLOW = 8;
const SLOW_PART = 4;
/** Time after which an interface that was set aside is tried again. */
const SET_ASIDE_MS = 600_000;
/** Time that the interfaces of one project may take of a block: a slot lasts as long. */
const MAX_BLOCK_MS = 400;

/** An interface of a project takes too long. 400, because only the project can change that. */
export class CostlyInterface extends RequestError {
  constructor(what: string) {
    super(400, 'the interface takes too long to decode', { details: `PARSED_IDL_COSTLY: ${what}` });
    this.name = 'CostlyInterface';
  }
}

interface Cost {
  decodes: number;
  slow: number;
  totalMs: number;
  /** Monotonic; the interface is not used before. */
  untilMs: number;
}

/** The time that a project still has for a block. */
export interface BlockTime {
  leftMs: number;
}

export const blockTime = (): BlockTime => ({ leftMs: MAX_BLOCK_MS });

export interface MeasuredInterface extends ProgramInterface {
  isSetAside(): boolean;
}

/** Throws CostlyInterface for an interface that is set aside: what asks for names must not take that for a name that does not fit. */
export function demandUsable(program: ProgramInterface | MeasuredInterface, address: string): void {
  if ('isSetAside' in program && program.isSetAside()) throw new CostlyInterface(address);
}

export interface DecodeCosts {
  /** Returns the interface with its time measured. While it is set aside it decodes nothing, like one that cannot be read. */
  measured(program: ProgramInterface): MeasuredInterface;
  /** Like `measured`, for an interface of a project. Throws CostlyInterface while it is set aside, or when `time` is used up. */
  ofProject(program: ProgramInterface, address: string, time: BlockTime | null): ProgramInterface;
}

/** `setAside` is called once each time an interface is set aside. */
export function createDecodeCosts(clock: Clock, setAside: (program: ProgramInterface) => void): DecodeCosts {
  const costs = new WeakMap<ProgramInterface, Cost>();
  const wrapped = new WeakMap<ProgramInterface, MeasuredInterface>();

  function costOf(program: ProgramInterface): Cost {
    let cost = costs.get(program);
    if (cost === undefined) {
      cost = { decodes: 0, slow: 0, totalMs: 0, untilMs: Number.NEGATIVE_INFINITY };
      costs.set(program, cost);
    }
    return cost;
  }

  function note(program: ProgramInterface, ms: number, isDecode: boolean): void {
    const cost = costOf(program);
    if (isDecode) cost.decodes += 1;
    cost.totalMs += ms;
    if (ms > MAX_MEAN_MS) cost.slow += 1;
    const isCostly =
      cost.slow >= MIN_SLOW && cost.slow * SLOW_PART >= cost.decodes && cost.totalMs > cost.decodes * MAX_MEAN_MS;
    if (!isCostly) return;
    costs.set(program, { decodes: 0, slow: 0, totalMs: 0, untilMs: clock.monotonic() + SET_ASIDE_MS });
    setAside(program);
  }

  const isUsable = (program: ProgramInterface): boolean => costOf(program).untilMs <= clock.monotonic();

  /** Returns what `read` finds, and its time. The call of data that did not decode is part of that decode. */
  function timed<T>(program: ProgramInterface, of: 'decode' | 'callOf', read: () => T) {
    const startedMs = clock.monotonic();
    const found = read();
    const ms = clock.monotonic() - startedMs;
    note(program, ms, of === 'decode');
    return { found, ms };
  }

  return {
    measured(program) {
      let one = wrapped.get(program);
      if (one === undefined) {
        const isSetAside = () => !isUsable(program);
        one = {
          ...program,
          isSetAside,
          decode: (...args) => (isSetAside() ? null : timed(program, 'decode', () => program.decode(...args)).found),
          callOf: (...args) => (isSetAside() ? null : timed(program, 'callOf', () => program.callOf(...args)).found),
        };
        wrapped.set(program, one);
      }
      return one;
    },
    ofProject(program, address, time) {
      function within<T>(of: 'decode' | 'callOf', read: () => T): T {
        if (!isUsable(program)) throw new CostlyInterface(`${address}; upload another one, or delete it`);
        if (time !== null && time.leftMs <= 0)
          throw new CostlyInterface(`${address}, for the instructions of one block`);
        const { found, ms } = timed(program, of, read);
        if (time !== null) time.leftMs -= ms;
        return found;
      }
      return {
        ...program,
        decode: (...args) => within('decode', () => program.decode(...args)),
        callOf: (...args) => within('callOf', () => program.callOf(...args)),
      };
    },
  };
}
