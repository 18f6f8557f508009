import type { Clock } from '../../ports/clock.ts';
import type { Deadlines } from '../calls/deadlines.ts';
import type { CallContext, Gate } from '../plugin.ts';
import { type Executed, executeForward, executeLocal, failed } from './execute.ts';
import type { RpcMetrics } from './meter.ts';
import { type Prepared, rpcFault } from './prepare.ts';

/** What calls are run with. */
export interface RunParts {
  readonly gate: Gate | null;
  readonly meter: RpcMetrics;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  /** Of a method without a deadline of its own. */
  readonly handlerTimeoutMs: number;
}

/** Runs an admitted call where it goes. Never throws. */
export async function runCall(
  { meter, clock, deadlines, handlerTimeoutMs }: RunParts,
  { call, destination, name, fault }: Prepared,
  body: Buffer,
  context: CallContext,
  inBatch: boolean,
): Promise<Executed> {
  const startedMs = clock.monotonic();
  const executed =
    fault !== null || destination.kind === 'none'
      ? failed(fault ?? rpcFault('methodNotFound'), call.id)
      : destination.kind === 'local'
        ? await executeLocal(destination.local, body, call, context, deadlines, handlerTimeoutMs)
        : await executeForward(destination.fallback, name, body, call, context, inBatch);
  meter.done(name, destination.kind, executed.ok, clock.monotonic() - startedMs);
  return executed;
}
