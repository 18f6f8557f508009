import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { Clock } from '../ports/clock.ts';
import { DeadlinePassed, withDeadline } from '../runtime/waiting.ts';
import type { RunningCall } from './state.ts';

export interface GuardOptions {
  /** Id of the plugin that contributes it. */
  readonly plugin: string;
  /** Limit for each call of a processor. */
  readonly timeoutMs: () => number;
  readonly clock: Clock;
  /** Ends the wait for a call that runs; what it wrote is rolled back. */
  readonly signal: AbortSignal;
  /** Holds the call of each processor while it runs. */
  readonly running: Map<string, RunningCall>;
}

/** What a processor did wrong; the facts of PROCESSOR_FAILED and PROCESSOR_TIMEOUT. */
export interface ProcessorFault {
  readonly plugin: string;
  readonly processor: string;
  /** Null where the call is about no block. */
  readonly slot: number | null;
  /** Which of its functions. */
  readonly call: string;
  /** Code or name of what it threw. */
  readonly reason: string;
  /** Where it was thrown, without its message, which may contain private data. */
  readonly stack: readonly string[];
}

const FRAMES = 5;

/**
 * Wraps a processor: its calls have a deadline, and its errors name plugin, processor and slot. Errors that say something about the
 * store or an upstream are passed on as they are. Errors besides: PROCESSOR_FAILED, PROCESSOR_TIMEOUT.
 */
export function guardProcessor(inner: BlockProcessor, options: GuardOptions): BlockProcessor {
  async function guarded<T>(call: string, slot: number | null, work: () => Promise<T>): Promise<T> {
    const started: RunningCall = { slot, since: options.clock.monotonic() };
    options.running.set(inner.name, started);
    try {
      return await withDeadline(options.clock, options.timeoutMs(), work, options.signal);
    } catch (error) {
      throw options.signal.aborted || isOfOthers(error) ? error : faultyCall(error, inner, options, call, slot);
    } finally {
      if (options.running.get(inner.name) === started) options.running.delete(inner.name);
    }
  }
  const { prepare, finalized, addresses, pressure } = inner;
  return {
    name: inner.name,
    version: inner.version,
    chains: inner.chains,
    // They may be known only later.
    get startSlot() {
      return inner.startSlot as number;
    },
    get outOfOrder() {
      return inner.outOfOrder as boolean;
    },
    get wantsGaps() {
      return inner.wantsGaps as boolean;
    },
    apply: (tx, block, chain, how) => guarded('apply', block.slot, () => inner.apply(tx, block, chain, how)),
    revert: (tx, header, chain) => guarded('revert', header.slot, () => inner.revert(tx, header, chain)),
    ...(prepare === undefined
      ? {}
      : { prepare: (block, chain) => guarded('prepare', block.slot, () => prepare.call(inner, block, chain)) }),
    ...(finalized === undefined
      ? {}
      : { finalized: (tx, slot, chain) => guarded('finalized', slot, () => finalized.call(inner, tx, slot, chain)) }),
    ...(addresses === undefined
      ? {}
      : { addresses: (db, chain, limit) => guarded('addresses', null, () => addresses.call(inner, db, chain, limit)) }),
    ...(pressure === undefined
      ? {}
      : {
          pressure() {
            try {
              return pressure.call(inner);
            } catch (error) {
              throw faultyCall(error, inner, options, 'pressure', null);
            }
          },
        }),
  };
}

/** A conflict is caused by the processor; other store errors, and refusals of upstreams, are not. */
function isOfOthers(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  if (code === 'STORE_CONFLICT' || code === 'STORE_CONSTRAINT' || code.startsWith('CHAIN_BAD_')) return false;
  return /^(STORE|CHAIN|UPSTREAM|FOLLOW)_/.test(code) || (error instanceof CodedError && error.retryable);
}

function faultyCall(
  error: unknown,
  { name: processor }: BlockProcessor,
  { plugin, timeoutMs }: GuardOptions,
  call: string,
  slot: number | null,
): CodedError {
  const isLate = error instanceof DeadlinePassed;
  const reason = isLate
    ? `no end within ${timeoutMs() / 1_000} s`
    : (codeOf(error) ?? (error instanceof Error ? error.name : typeof error));
  const facts: ProcessorFault = { plugin, processor, slot, call, reason, stack: isLate ? [] : framesOf(error) };
  const where = `processor ${processor} of plugin ${plugin}, ${call}${slot === null ? '' : ` at slot ${slot}`}`;
  return new CodedError(
    isLate ? 'PROCESSOR_TIMEOUT' : 'PROCESSOR_FAILED',
    `${where}: ${isLate ? reason : messageOf(error)}`,
    { cause: error, facts: { ...facts } },
  );
}

function framesOf(error: unknown): readonly string[] {
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : [];
  return lines
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
    .slice(0, FRAMES);
}

/** Null for an error that is not a processor's. */
export function faultOfProcessor(error: unknown): ProcessorFault | null {
  const isOne = error instanceof CodedError && /^PROCESSOR_(FAILED|TIMEOUT)$/.test(error.code);
  return isOne ? (error.facts as unknown as ProcessorFault) : null;
}

/** Stack of the error that the processor threw, for the log. */
export const stackOf = (error: unknown): string | null =>
  error instanceof Error && error.cause instanceof Error ? (error.cause.stack ?? null) : null;

/** Text for readiness. */
export function describeFault({ plugin, processor, slot, call, reason, stack }: ProcessorFault): string {
  const where = slot === null ? '' : ` at slot ${slot}`;
  return `processor ${processor} of plugin ${plugin} fails${where} (${call}): ${reason}${stack.length === 0 ? '' : `, ${stack.join(', ')}`}`;
}

const FATAL = new Set([
  'FOLLOW_FENCED',
  'FOLLOW_REWIND',
  'LEDGER_IO',
  'STORE_IO',
  'STORE_FULL',
  'STORE_READ_ONLY',
  'STORE_CORRUPT',
  'STORE_CLOSED',
]);

/** The error that ends the process when a write failed for good; null when a retry may help. */
export function fatalOf(error: unknown): CodedError | null {
  const code = codeOf(error);
  if (!(error instanceof CodedError) || code === undefined || !FATAL.has(code)) return null;
  if (error.exitCode !== undefined) return error;
  return new CodedError(code, error.message, { cause: error, facts: error.facts, exitCode: EXIT.temporary });
}

/** Text for readiness about a failed attempt. The message of the error goes only to the log. */
export function failureReasonOf(error: unknown, doing: string): string {
  const fault = faultOfProcessor(error);
  if (fault !== null) return describeFault(fault);
  return `${doing} failed: ${codeOf(error) ?? 'unexpected error, see the log'}`;
}
