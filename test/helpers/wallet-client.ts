/** Asks the wallet routes of a daemon as a program would. */
import assert from 'node:assert/strict';
import type { TestDaemon } from './daemon.ts';

export interface HistoryItem {
  readonly signature: string;
  readonly timestamp: number | null;
  readonly slot: number;
  readonly fee: number;
  readonly feePayer: string;
  readonly error: string | null;
  readonly balanceChanges: readonly { readonly mint: string; readonly amount: number; readonly decimals: number }[];
}

export interface TransferItem {
  readonly signature: string;
  readonly timestamp: number;
  readonly direction: 'in' | 'out';
  readonly counterparty: string;
  readonly mint: string;
  readonly symbol: string | null;
  readonly amount: number;
  readonly amountRaw: string;
  readonly decimals: number;
}

export interface Page<T> {
  readonly data: readonly T[];
  readonly pagination: { readonly hasMore: boolean; readonly nextCursor: string | null };
}

export interface BalanceAtBody {
  readonly balance: string;
  readonly balanceRaw: string;
  readonly decimals: number;
  readonly asOf: { readonly slot: number; readonly signature: string; readonly blockTime: number | null } | null;
}

export interface WalletClient {
  ask(path: string): Promise<{ readonly status: number; readonly body: unknown; readonly headers: Headers }>;
  /** The body of a 200; a 503 with Retry-After is asked again for a minute. */
  get<T>(path: string): Promise<T>;
  /** All pages one after the other; `limits` are used in turn. */
  all<T>(path: string, cursorName: string, limits: readonly number[]): Promise<readonly T[]>;
}

const PATIENCE_MS = 60_000;

export function walletClient(daemon: Pick<TestDaemon, 'apiUrl' | 'key'>): WalletClient {
  async function ask(path: string) {
    const response = await fetch(`${daemon.apiUrl}/v1/wallet/${path}`, { headers: { 'X-Api-Key': daemon.key } });
    return { status: response.status, body: (await response.json()) as unknown, headers: response.headers };
  }

  async function get<T>(path: string): Promise<T> {
    for (const startedMs = performance.now(); ; ) {
      const { status, body, headers } = await ask(path);
      if (status === 200) return body as T;
      const isLater = status === 503 && headers.has('retry-after') && performance.now() - startedMs < PATIENCE_MS;
      assert.ok(isLater, `${path}: ${status} ${JSON.stringify(body)}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  return {
    ask,
    get,
    async all<T>(path: string, cursorName: string, limits: readonly number[]) {
      const items: T[] = [];
      let cursor: string | null = null;
      for (let turn = 0; ; turn += 1) {
        assert.ok(turn < 10_000, 'pages without an end');
        const limit = limits[turn % limits.length];
        const mark = path.includes('?') ? '&' : '?';
        const next: string = cursor === null ? '' : `&${cursorName}=${cursor}`;
        const page: Page<T> = await get<Page<T>>(`${path}${mark}limit=${limit}${next}`);
        items.push(...page.data);
        assert.equal(page.pagination.nextCursor !== null, page.pagination.hasMore);
        if (!page.pagination.hasMore) return items;
        cursor = page.pagination.nextCursor;
      }
    },
  };
}
