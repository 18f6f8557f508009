/** What clients were answered and what was delivered, against what the store counts of it. */
import type { Role } from '../../../src/ports/daemon-view.ts';
import { type Counted, outside } from '../../helpers/usage-bounds.ts';

/** What calls cost; each is one request of its product. */
const PRICES = {
  list: { product: 'webhooks', credits: 0 },
  create: { product: 'webhooks', credits: 100 },
  wallet: { product: 'walletApi', credits: 100 },
  standard: { product: 'rpc', credits: 1 },
  historical: { product: 'archival', credits: 1 },
  compression: { product: 'photon', credits: 10 },
} as const;
/** A pair of webhook and transaction, when the outcome of its first attempt is written. */
const DELIVERY = { product: 'webhooks', credits: 1 } as const;

export type CallKind = keyof typeof PRICES;
export const PRODUCTS = [...new Set(Object.values(PRICES).map(({ product }) => product))];

export interface CallsBook {
  /** It was answered, and the answer is one that is charged. */
  answered(kind: CallKind): void;
  /** The connection broke before there was an answer: whether it counts is not known. */
  unknown(kind: CallKind): void;
  /** A process has ended without its last write: what it counted between these times may be gone. */
  ended(role: Role, sinceMs: number, atMs: number): void;
  /**
   * Compares what the store has counted since the last time, once nothing waits to be written: exactly, where no process has ended and no
   * connection broke. `delivered`: when deliveries were. Times are monotonic.
   */
  check(counted: ReadonlyMap<string, Counted>, delivered: readonly number[]): UsageFigures;
}

export interface UsageFigures {
  /** In words; null when all is well. */
  readonly fault: string | null;
  readonly calls: number;
  /** Calls and deliveries that may be lost, and calls whose answer is not known. */
  readonly mayBeLost: number;
  readonly unknown: number;
  /** Requests that the store does not count, out of those that were answered. */
  readonly lost: number;
}

interface Spent {
  readonly product: string;
  readonly credits: number;
  readonly atMs: number;
  readonly role: Role;
}

interface Ended {
  readonly role: Role;
  readonly sinceMs: number;
  readonly atMs: number;
}

export function createCallsBook(): CallsBook {
  const before = new Map<string, Counted>();
  let spent: Spent[] = [];
  let unknown: { readonly product: string; readonly credits: number }[] = [];
  let ends: Ended[] = [];
  const isSure = ({ role, atMs }: Spent) =>
    !ends.some((end) => end.role === role && atMs >= end.sinceMs && atMs <= end.atMs);

  function faultOf(product: string, { requests, credits }: Counted): string | null {
    const of = <T extends { readonly product: string }>(list: readonly T[]) =>
      list.filter((one) => one.product === product);
    const all = of(spent);
    const sure = all.filter(isSure);
    const most = [...all, ...of(unknown)];
    return (
      outside(`requests of ${product}`, requests, [sure.length, most.length]) ??
      outside(`credits of ${product}`, credits, [sumOf(sure), sumOf(most)])
    );
  }

  return {
    answered: (kind) => void spent.push({ ...PRICES[kind], atMs: performance.now(), role: 'api' }),
    unknown: (kind) => void unknown.push(PRICES[kind]),
    ended: (role, sinceMs, atMs) => void ends.push({ role, sinceMs, atMs }),
    check(counted, delivered) {
      const calls = spent.length;
      spent.push(...delivered.map((atMs) => ({ ...DELIVERY, atMs, role: 'deliverer' as const })));
      const grown = new Map<string, Counted>();
      for (const product of PRODUCTS) {
        const [now, then] = [counted.get(product) ?? NOTHING, before.get(product) ?? NOTHING];
        grown.set(product, { requests: now.requests - then.requests, credits: now.credits - then.credits });
        before.set(product, now);
      }
      const faults = [...grown].map(([product, more]) => faultOf(product, more)).filter((fault) => fault !== null);
      const counts = [...grown.values()].reduce((sum, { requests }) => sum + requests, 0);
      const figures = {
        fault: faults[0] ?? null,
        calls,
        unknown: unknown.length,
        mayBeLost: spent.filter((one) => !isSure(one)).length,
        lost: Math.max(0, spent.length - counts),
      };
      [spent, unknown, ends] = [[], [], []];
      return figures;
    },
  };
}

const NOTHING: Counted = { requests: 0, credits: 0 };
const sumOf = (list: readonly { readonly credits: number }[]) => list.reduce((sum, { credits }) => sum + credits, 0);
