import {
  API_VERSION,
  type BlockProcessor,
  type ChainBlock,
  CodedError,
  definePlugin,
} from '../../src/plugin/plugin.ts';
import { accessAccounts, accessRemoval } from '../../src/ports/access.ts';
import { type Movements, readMovements } from '../../src/solana/movements/read-movements.ts';
import {
  claimRoute,
  createClaims,
  migrations,
  type Price,
  readTerms,
  refused,
  type Terms,
  tables,
  termsRoute,
} from './claim.ts';
import { SIGNUP_ERRORS, signupConfig } from './config.ts';

/** Keys for whoever pays: agents need no operator. Not in the usual list of plugins. */
export default definePlugin({
  id: 'signup',
  apiVersion: API_VERSION,
  summary: 'gives API keys for payments on the chain: GET and POST /v0/signup',
  config: signupConfig,
  uses: [accessAccounts, accessRemoval],
  migrations,
  provision({ config, store, clock, use, http, blocks, onStart }) {
    const accounts = use(accessAccounts);
    if (accounts === undefined)
      throw new CodedError('SIGNUP_NO_ACCESS', SIGNUP_ERRORS.SIGNUP_NO_ACCESS, { exitCode: 78 });
    const terms = readTerms(config);
    http.route(termsRoute(terms, config.plan, config.credits));
    http.route(claimRoute(createClaims({ store, clock, accounts, config })));
    blocks.on(createProcessor(terms));
    // The next payment of the wallet makes a new project.
    use(accessRemoval)?.onDelete(async (tx, project) => {
      await tables(tx.db).deleteFrom('signup_projects').where('project_id', '=', project).execute();
    });
    onStart(() => {
      if (!accounts.hasPlan(config.plan)) throw refused(`there is no plan ${config.plan}`);
    });
  },
});

/** Keeps the payments of the main chain. What was claimed is never forgotten, so that nothing is given for it again. */
export function createProcessor(terms: Terms): BlockProcessor {
  return {
    name: 'signup',
    version: 1,
    chains: ['main'],
    outOfOrder: true,
    addresses: async () => [terms.treasury],
    async apply(tx, block, _chain, how) {
      const rows = findPayments(block, terms).map(({ signature, wallet, symbol, amount }) => ({
        ...{ signature, wallet, symbol, amount: String(amount), slot: block.slot },
        ...{ is_final: how?.isFinal === true ? 1 : 0, claimed_at: null, key_hash: null, project_id: null },
      }));
      if (rows.length === 0) return;
      await tables(tx.db)
        .insertInto('signup_payments')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    },
    async revert(tx, { slot }) {
      await tables(tx.db)
        .deleteFrom('signup_payments')
        .where('slot', '=', slot)
        .where('claimed_at', 'is', null)
        .execute();
    },
    async finalized(tx, slot) {
      await tables(tx.db)
        .updateTable('signup_payments')
        .set({ is_final: 1 })
        .where('is_final', '=', 0)
        .where('slot', '<=', slot)
        .execute();
    },
  };
}

/** A transaction in which a wallet paid the whole price. */
interface Payment {
  /** Of the transaction. */
  readonly signature: string;
  /** Who paid: whoever owned what was moved. */
  readonly wallet: string;
  readonly symbol: string;
  /** Lamports or raw units that arrived. */
  readonly amount: bigint;
}

/** At most one payment for each wallet and transaction. Pure; failed transactions pay nothing. */
function findPayments(block: ChainBlock, terms: Terms): Payment[] {
  const treasury = block.keys.find(terms.treasuryKey);
  if (treasury < 0) return [];
  return block.transactions.flatMap((tx) => {
    if (tx.isVote || tx.error !== null) return [];
    if (!tx.keys.includes(treasury) && !tx.tokenOwners.includes(treasury)) return [];
    const moved = arrivals(readMovements(tx, block.keys), tx.keys, treasury);
    return [...moved].flatMap(([wallet, byMint]) => {
      const paid = terms.prices.find(({ mint, amount }) => (byMint.get(mint) ?? 0n) >= amount);
      return paid === undefined ? [] : [paymentOf(tx.signature, wallet, paid, byMint)];
    });
  });
}

const paymentOf = (signature: string, wallet: string, { symbol, mint }: Price, byMint: Amounts): Payment => ({
  ...{ signature, wallet, symbol },
  amount: byMint.get(mint) ?? 0n,
});

/** By mint, null for lamports. */
type Amounts = Map<string | null, bigint>;

/** What each wallet moved to the treasury, less what went the other way. */
function arrivals({ moves, keys }: Movements, accounts: Uint32Array, treasury: number): Map<string, Amounts> {
  const found = new Map<string, Amounts>();
  const add = (wallet: number, mint: string | null, amount: bigint) => {
    const name = keys.base58(wallet);
    const amounts = found.get(name) ?? new Map<string | null, bigint>();
    found.set(name, amounts.set(mint, (amounts.get(mint) ?? 0n) + amount));
  };
  for (const move of moves) {
    // Only transfers: other effects of a program do not show whose money it is.
    if (move.asset === 'native') {
      const [from, to] = [accounts[move.from] ?? -1, accounts[move.to] ?? -1];
      if (move.kind !== 'transfer' || from < 0 || from === to) continue;
      if (to === treasury) add(from, null, move.amount);
      else if (from === treasury && to >= 0) add(to, null, -move.amount);
    } else {
      const { sourceOwner: from, destinationOwner: to, fee } = move;
      if (move.mint < 0 || move.source < 0 || move.destination < 0 || from < 0 || from === to) continue;
      const mint = keys.base58(move.mint);
      // An unknown fee may be all of it.
      if (to === treasury) add(from, mint, fee === null ? 0n : move.amount - fee);
      else if (from === treasury && to >= 0) add(to, mint, -move.amount);
    }
  }
  return found;
}
