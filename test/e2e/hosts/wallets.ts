/** What is told of wallets while hosts are hurt: nothing that is not on the chain. */
import assert from 'node:assert/strict';
import type { Payments } from '../../helpers/payments.ts';
import { eventually } from '../roles/harness.ts';
import type { Client } from './client.ts';

export interface Wallets {
  /** Asks for a history and a balance; what they show is looked at by `check`, or at once. */
  ask(address: string): Promise<void>;
  /** At rest: all that was shown is on the chain, and the newest of the chain is shown. */
  check(): Promise<void>;
  readonly answers: number;
}

interface Page {
  readonly data: readonly { readonly signature: string }[];
}
interface Balances {
  readonly balances: readonly { readonly symbol: string | null; readonly balance: number }[];
}

const LAMPORTS = 1_000_000_000;
const PAGE = 20;

export function createWallets(payments: Payments, client: Client): Wallets {
  const shown = new Map<string, Set<string>>(payments.addresses.map((address) => [address, new Set()]));
  let answers = 0;

  async function historyOf(address: string): Promise<readonly string[] | null> {
    const answer = await client.get('wallet', `/v1/wallet/${address}/history?limit=${PAGE}`);
    if (answer?.status !== 200) return null;
    answers += 1;
    const signatures = (answer.body as Page).data.map(({ signature }) => signature);
    for (const signature of signatures) shown.get(address)?.add(signature);
    return signatures;
  }

  async function balanceOf(address: string): Promise<number | null> {
    const answer = await client.get('wallet', `/v1/wallet/${address}/balances`);
    if (answer?.status !== 200) return null;
    answers += 1;
    const sol = (answer.body as Balances).balances.find(({ symbol }) => symbol === 'SOL');
    return Math.round((sol?.balance ?? 0) * LAMPORTS);
  }

  /** The payments that were made or are under way allow it. */
  function checkBalance(address: string, lamports: number): void {
    const sums = Array.from({ length: payments.begun(address) + 1 }, (_, count) => payments.sumOf(address, count));
    assert.ok(sums.includes(lamports), `${address} never had ${lamports}`);
  }

  return {
    get answers() {
      return answers;
    },
    async ask(address) {
      await historyOf(address);
      const lamports = await balanceOf(address);
      if (lamports !== null) checkBalance(address, lamports);
    },
    async check() {
      for (const address of payments.addresses) {
        const sent = payments.sent.get(address) ?? [];
        const real = new Set(sent);
        for (const signature of shown.get(address) ?? []) assert.ok(real.has(signature), `${signature} was never sent`);
        shown.get(address)?.clear();
        const newest = sent.toReversed().slice(0, PAGE);
        const isTold = async () => String(await historyOf(address)) === String(newest);
        await eventually(`the history of ${address} is whole`, isTold, () => newest.join('\n'));
        const isPaid = async () => (await balanceOf(address)) === payments.sumOf(address, sent.length);
        await eventually(`the balance of ${address} is right`, isPaid);
      }
    },
  };
}
