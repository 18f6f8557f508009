import type { Failing } from '../../helpers/usage-bounds.ts';
import type { ApiAnswer, ApiCall } from './client.ts';
import type { DaemonProcess, DaemonRig } from './daemon-harness.ts';
import type { HookBook } from './hook-book.ts';
import type { CallKind, UsageBook } from './usage-book.ts';

/** A life under way, and what was learnt of it. */
export interface Scene {
  readonly rig: DaemonRig;
  readonly projectId: string;
  readonly hooks: HookBook;
  readonly usage: UsageBook;
  /** Addresses whose history was asked for. */
  readonly wallets: Set<string>;
  /** Stops of processes that were killed; they do no more harm, but take their time. */
  readonly endings: Promise<unknown>[];
  process: DaemonProcess;
  processes: number;
  calls: number;
  /** When writes failed last, or do now; null when they never did. */
  failing: Failing | null;
  /** Requests of the receivers that were looked at. */
  checked: number;
}

/** A call, with what is to be made of its answer. */
export interface Planned extends ApiCall {
  readonly kind: CallKind;
  readonly take: (answer: ApiAnswer) => void;
}

/** The daemon broke its word. */
export class Wrong extends Error {}

export function demand(fault: string | null): void {
  if (fault !== null) throw new Wrong(fault);
}
