import { createPublicKey, verify } from 'node:crypto';
import { decode, decode32 } from '../../src/lib/base58.ts';
import { EXIT } from '../../src/lib/coded-error.ts';
import { sha256Hex, signupMessage } from '../../src/lib/signup-message.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import {
  type BlockProcessor,
  type ChainBlock,
  type Clock,
  CodedError,
  codeOf,
  defineRoute,
  json,
  type PluginContext,
  RequestError,
  type Route,
  type Store,
  type StoreTx,
  type Tag,
  Type,
} from '../../src/plugin/plugin.ts';
import {
  type AccessAccounts,
  type AccessAdmin,
  accessAccounts,
  accessAdmin,
  accessRemoval,
} from '../../src/ports/access.ts';
import type { NormalTransaction } from '../../src/ports/block.ts';
import { type Movements, readMovements } from '../../src/solana/movements/read-movements.ts';
import { MEMO_PROGRAMS } from '../../src/solana/programs.ts';
import { address, count, EXAMPLES, mint, orNull, slot, text } from '../../src/solana/schemas.ts';
import { checkoutActions, projectFor } from './checkout.ts';
import { SIGNUP_ERRORS, type SignupConfig } from './config.ts';
import { type HostedParts, hostedRoutes } from './hosted.ts';
import { ORDER_PREFIX } from './per-call/orders.ts';
import type { CallTerms } from './per-call/plugin.ts';
import { type PaymentRow, tables } from './tables.ts';

export async function provision(ctx: HostContext<SignupConfig>): Promise<void> {
  const { config, store, clock, use, http, blocks, onStart } = ctx;
  const accounts = use(accessAccounts);
  if (accounts === undefined)
    throw new CodedError('SIGNUP_NO_ACCESS', SIGNUP_ERRORS.SIGNUP_NO_ACCESS, { exitCode: EXIT.config });
  const admin = use(accessAdmin);
  const outcomes = ctx.metrics.counter('call_payments_total', 'payments of single calls, by outcome', ['outcome']);
  const calls = config.perCall.enabled
    ? await (await import('./per-call/plugin.ts')).addPerCall(ctx, accounts, outcomes)
    : null;
  const terms = calls !== null && hasNoPrice(config) ? null : readTerms(config);
  if (terms !== null) http.route(termsRoute(terms, config.plan, config.credits));
  http.route(claimRoute(createClaims({ store, clock, accounts, config })));
  const usdc = terms === null ? null : centsOf(terms);
  if (terms !== null && usdc !== null && admin !== undefined)
    for (const route of hostedRoutes(hostedParts(ctx, { accounts, admin, terms, usdc }))) http.route(route);
  blocks.on(createPaymentProcessor(terms, calls));
  // The next payment of the wallet makes a new project.
  use(accessRemoval)?.onDelete(async (tx, project) => {
    for (const table of ['signup_projects', 'signup_payers'] as const)
      await tables(tx.db).deleteFrom(table).where('project_id', '=', project).execute();
  });
  onStart(() => {
    if (!accounts.hasPlan(config.plan)) throw refused(`there is no plan ${config.plan}`);
  });
}

/**
 * Keeps the payments of the main chain: of sign-ups with the terms, and of calls. What was claimed is never forgotten, so that nothing is given for
 * it again.
 */
export function createPaymentProcessor(terms: Terms | null, calls: CallTerms | null = null): BlockProcessor {
  return {
    name: 'signup',
    version: 1,
    chains: ['main'],
    outOfOrder: true,
    addresses: async () => [...new Set([terms?.treasury, calls?.place()?.treasury].filter((one) => one !== undefined))],
    async apply(tx, block, _chain, how) {
      const rows = findPayments(block, terms, calls).map(({ signature, wallet, symbol, amount, memo, credits }) => ({
        signature,
        wallet,
        symbol,
        amount: String(amount),
        slot: block.slot,
        is_final: how?.isFinal === true ? 1 : 0,
        claimed_at: null,
        key_hash: null,
        project_id: null,
        memo,
        credits,
        used_at: null,
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
  /** Base58. */
  readonly signature: string;
  /** The paying wallet: the owner of the SOL or tokens that were moved. */
  readonly wallet: string;
  readonly symbol: string;
  /** Lamports or raw units that arrived. */
  readonly amount: bigint;
  /** Text of its memo instruction, if it can name a checkout. */
  readonly memo: string | null;
  /** What it has bought for calls; null: it pays a sign-up. */
  readonly credits: number | null;
}

/** At most one payment for each wallet and transaction. Pure; failed transactions pay nothing. */
function findPayments(block: ChainBlock, terms: Terms | null, calls: CallTerms | null): Payment[] {
  return [
    ...(terms === null
      ? []
      : findTransfers(
          block,
          terms.treasuryKey,
          (memo) => calls === null || !isOrder(memo),
          (byMint) => {
            const paid = terms.prices.find(({ mint, amount }) => (byMint.get(mint) ?? 0n) >= amount);
            return paid === undefined
              ? null
              : { symbol: paid.symbol, amount: byMint.get(paid.mint) ?? 0n, credits: null };
          },
        )),
    ...findCallPayments(block, calls),
  ];
}

/** What wallets paid for calls: with an order as memo, so that no payment counts for a sign-up too. */
function findCallPayments(block: ChainBlock, calls: CallTerms | null): Payment[] {
  const place = calls?.place() ?? null;
  if (calls === null || place === null) return [];
  return findTransfers(block, place.treasuryKey, isOrder, (byMint) => {
    const amount = byMint.get(place.mint) ?? 0n;
    const credits = amount > 0n ? calls.creditsOf(amount) : 0;
    return credits < 1 ? null : { symbol: CALLS, amount, credits };
  });
}

const isOrder = (memo: string | null) => memo?.startsWith(ORDER_PREFIX) === true;

function findTransfers(
  block: ChainBlock,
  to: Uint8Array,
  wants: (memo: string | null) => boolean,
  read: (byMint: Amounts) => Pick<Payment, 'symbol' | 'amount' | 'credits'> | null,
): Payment[] {
  const treasury = block.keys.find(to);
  if (treasury < 0) return [];
  return block.transactions.flatMap((tx) => {
    if (tx.isVote || tx.error !== null) return [];
    if (!tx.keys.includes(treasury) && !tx.tokenOwners.includes(treasury)) return [];
    const memo = memoOf(tx, block);
    if (!wants(memo)) return [];
    const moved = arrivals(readMovements(tx, block.keys), tx.keys, treasury);
    return [...moved].flatMap(([wallet, byMint]) => {
      const paid = read(byMint);
      return paid === null ? [] : [{ signature: tx.signature, wallet, memo, ...paid }];
    });
  });
}

/** Ids of checkouts and orders are shorter. */
const MAX_MEMO = 40;
/** Symbol of payments of calls. */
const CALLS = 'calls';

/** The text of the first memo of a transaction, if it can be the id of a checkout, or an order. */
function memoOf({ instructions, keys }: NormalTransaction, block: ChainBlock): string | null {
  const memo = instructions.find(({ programIndex }) =>
    MEMO_PROGRAMS.includes(block.keys.base58(keys[programIndex] ?? 0)),
  );
  if (memo === undefined || memo.data.length > MAX_MEMO) return null;
  const text = Buffer.from(memo.data).toString('latin1');
  return /^[\w-]+$/.test(text) ? text : null;
}

/** The price in USDC in cents; null: the wire of the hosted service knows no other currency, and no parts of a cent. */
function centsOf({ prices }: Terms): HostedParts['usdc'] | null {
  const price = prices.find(({ symbol, mint }) => symbol === 'USDC' && mint !== null);
  if (price === undefined || price.mint === null || price.decimals < 2) return null;
  const unit = 10n ** BigInt(price.decimals - 2);
  return price.amount % unit === 0n ? { mint: price.mint, cents: Number(price.amount / unit) } : null;
}

interface HostedSurroundings {
  readonly accounts: AccessAccounts;
  readonly admin: AccessAdmin;
  readonly terms: Terms;
  readonly usdc: HostedParts['usdc'];
}

function hostedParts(
  { store, clock, random, config }: PluginContext<SignupConfig>,
  { accounts, admin, terms, usdc }: HostedSurroundings,
): HostedParts {
  return {
    ...checkoutActions({ store, clock, random, accounts, admin, config }),
    clock,
    tag: SIGN_UP,
    treasury: terms.treasury,
    usdc,
    verify: verifyEd25519,
  };
}

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

export interface KeyClaim {
  readonly wallet: string;
  readonly payment: string;
  readonly key: string;
}

type ClaimOutcome =
  /** Returned again to a repeated claim. */
  | { readonly kind: 'given'; readonly projectId: string }
  /** Seen, and its block may still be taken back. */
  | { readonly kind: 'waiting'; readonly slot: number }
  /** Another key was given for it. */
  | { readonly kind: 'spent' }
  | { readonly kind: 'unknown' };

interface ClaimParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly accounts: AccessAccounts;
  readonly config: Pick<SignupConfig, 'plan' | 'credits'>;
}

/** Gives a key for a payment, once. Whose the payment is has been proven before. Error: STORE_CONFLICT, somebody has this key. */
export function createClaims({
  store,
  clock,
  accounts,
  config,
}: ClaimParts): (claim: KeyClaim) => Promise<ClaimOutcome> {
  /** Null when the payment cannot be spent: somebody has, or it is not final. */
  async function spend(tx: StoreTx, { wallet, payment, key }: KeyClaim): Promise<string | null> {
    const db = tables(tx.db);
    const { numUpdatedRows } = await db
      .updateTable('signup_payments')
      .set({ claimed_at: clock.now(), key_hash: sha256Hex(key) })
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .where('is_final', '=', 1)
      .where('claimed_at', 'is', null)
      .where('credits', 'is', null)
      .executeTakeFirst();
    if (Number(numUpdatedRows) === 0) return null;
    const projectId = await projectFor(tx, { clock, accounts, config }, wallet);
    await accounts.createKey(tx, { projectId, name: `sign-up ${payment.slice(0, 8)}`, key });
    if (config.credits > 0) await accounts.grant(tx, projectId, config.credits);
    await db
      .updateTable('signup_payments')
      .set({ project_id: projectId })
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .execute();
    return projectId;
  }

  /** A key for what a wallet has paid for calls, likewise once for each payment; the credits came before. */
  async function openProject(tx: StoreTx, { wallet, payment, key }: KeyClaim): Promise<string | null> {
    const mine = tables(tx.db)
      .updateTable('signup_payments')
      .set({ key_hash: sha256Hex(key) })
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .where('credits', 'is not', null)
      .where('project_id', 'is not', null)
      .where('key_hash', 'is', null);
    const row = await mine.returning('project_id').executeTakeFirst();
    if (row?.project_id == null) return null;
    await accounts.createKey(tx, { projectId: row.project_id, name: `calls ${payment.slice(0, 8)}`, key });
    return row.project_id;
  }

  const look = ({ wallet, payment }: KeyClaim): Promise<PaymentRow | undefined> =>
    tables(store.read)
      .selectFrom('signup_payments')
      .selectAll()
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .executeTakeFirst();

  return async (claim) => {
    // A look first: those who wait for their block must not queue for the write lock.
    const row = await look(claim);
    if (row === undefined) return { kind: 'unknown' };
    const isOpen = row.credits === null ? row.claimed_at === null : row.key_hash === null;
    const isNotGiven = row.credits !== null && row.project_id === null;
    if ((isOpen && row.is_final !== 1) || isNotGiven) return { kind: 'waiting', slot: row.slot };
    if (isOpen) {
      const give = row.credits === null ? spend : openProject;
      const write = () => store.write((tx) => give(tx, claim));
      const projectId = await write().catch((error: unknown) => {
        if (codeOf(error) !== 'STORE_CONFLICT') throw error;
        return write();
      });
      if (projectId !== null) return { kind: 'given', projectId };
    }
    const now = isOpen ? await look(claim) : row;
    if (now?.project_id != null && now.key_hash === sha256Hex(claim.key))
      return { kind: 'given', projectId: now.project_id };
    return { kind: 'spent' };
  };
}

/** A price of one sign-up. */
interface Price {
  /** `SOL`, or what the operator calls the token. */
  readonly symbol: string;
  /** Null for SOL. */
  readonly mint: string | null;
  readonly decimals: number;
  /** Lamports or raw units. */
  readonly amount: bigint;
}

/** What has to be paid to whom. */
interface Terms {
  readonly treasury: string;
  readonly treasuryKey: Uint8Array;
  readonly prices: readonly Price[];
}

const SOL_DECIMALS = 9;

/** Whether nothing is set that a sign-up needs. */
const hasNoPrice = ({ lamports, tokens }: SignupConfig) => lamports === null && tokens.length === 0;

/** Errors: SIGNUP_CONFIG, exit 78. */
export function readTerms({
  treasury,
  lamports,
  tokens,
}: Pick<SignupConfig, 'treasury' | 'lamports' | 'tokens'>): Terms {
  const treasuryKey = treasury === null ? null : decode32(treasury);
  if (treasury === null || treasuryKey === null) throw refused('signup.treasury is not an address');
  const sol =
    lamports === null ? [] : [{ symbol: 'SOL', mint: null, decimals: SOL_DECIMALS, amount: BigInt(lamports) }];
  const prices: Price[] = [...sol, ...tokens.map((token) => ({ ...token, amount: BigInt(token.amount) }))];
  if (prices.length === 0) throw refused('signup.lamports or signup.tokens has to name a price');
  for (const { mint } of prices) if (mint !== null && decode32(mint) === null) throw refused(`${mint} is no mint`);
  for (const what of [prices.map(({ symbol }) => symbol.toUpperCase()), prices.map(({ mint }) => mint)])
    if (new Set<string | null>(what).size < prices.length) throw refused('two prices have the same symbol or mint');
  return { treasury, treasuryKey, prices };
}

const refused = (problem: string) =>
  new CodedError('SIGNUP_CONFIG', `${SIGNUP_ERRORS.SIGNUP_CONFIG}: ${problem}`, { exitCode: EXIT.config });

const SIGN_UP: Tag = { name: 'Sign-up', description: 'API keys for payments on the chain' };
const SHARED = { path: '/v0/signup', tag: SIGN_UP, auth: 'none', errors: 'plain' } as const;
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const BODY_BYTES = 4_096;
const MAX_TEXT = 128;
const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
const textField = (description: string, example: string) => text(description, example, { maxLength: MAX_TEXT });
const SIGNATURE = '5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv2sUYv';

/** What a sign-up costs. */
function termsRoute(terms: Terms, plan: string, credits: number): Route {
  const prices = terms.prices.map(({ amount, ...price }) => ({ ...price, amount: String(amount) }));
  return defineRoute({
    ...SHARED,
    method: 'GET',
    summary: 'What a sign-up costs, and whom to pay',
    replies: {
      200: Type.Object(
        {
          treasury: address('Whom to pay'),
          plan: text('Plan of the project', 'free'),
          credits: count('Prepaid credits that come with it', 100_000),
          prices: Type.Array(
            Type.Object({
              symbol: text('Token', 'SOL'),
              mint: orNull(mint('Its mint; null for SOL')),
              decimals: count('Decimals of the token', 9),
              amount: text('Raw units, as text', '10000000'),
            }),
            { description: 'One of them has to be paid' },
          ),
        },
        { title: 'SignupTerms', description: 'What it costs' },
      ),
    },
    handler: () => json({ treasury: terms.treasury, plan, credits, prices }),
  });
}

/** Gives a key for a payment. */
function claimRoute(claim: (claim: KeyClaim) => Promise<ClaimOutcome>): Route {
  return defineRoute({
    ...SHARED,
    method: 'POST',
    summary: 'Install an API key for a finalized payment; the same claim may be repeated',
    bodyLimitBytes: BODY_BYTES,
    body: Type.Object({
      wallet: textField('Wallet that paid, base58', EXAMPLES.address),
      payment: textField('Signature of the transaction that paid, base58', SIGNATURE),
      key: textField('The API key: a random UUID v4 that the client makes', '2f9a1f6e-7f1b-4a30-8b1e-6d5f0c9a7e21'),
      proof: textField(
        'Signature of the wallet, base58, of the text "parhelion sign-up\\npayment: <payment>\\nkey sha-256: <hexadecimal>\\n"',
        SIGNATURE,
      ),
    }),
    replies: {
      200: Type.Object(
        {
          status: Type.Literal('given'),
          projectId: text('The project of the key', 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11'),
        },
        { description: 'The key is installed' },
      ),
      202: Type.Object(
        { status: Type.Literal('waiting'), slot: slot('Slot of the payment') },
        { description: 'The payment was seen and is not final yet: claim again' },
      ),
      400: errorReply,
      403: errorReply,
      404: errorReply,
      409: errorReply,
    },
    async handler({ body }) {
      prove(body);
      const outcome = await claim(body).catch((error: unknown) => {
        if (codeOf(error) === 'STORE_CONFLICT') throw new RequestError(409, 'This key is taken: try another one');
        throw error;
      });
      if (outcome.kind === 'given') return json({ status: 'given', projectId: outcome.projectId });
      if (outcome.kind === 'waiting') return json({ status: 'waiting', slot: outcome.slot }, 202);
      if (outcome.kind === 'spent') throw new RequestError(409, 'Another key was given for this payment');
      throw new RequestError(404, 'No payment of this wallet over the price was seen in this transaction');
    },
  });
}

function prove({ wallet, payment, key, proof }: KeyClaim & { readonly proof: string }): void {
  const publicKey = decode32(wallet);
  if (publicKey === null) throw new RequestError(400, 'wallet is no address');
  if (decode(payment)?.length !== 64) throw new RequestError(400, 'payment is not a signature');
  if (!UUID_V4.test(key)) throw new RequestError(400, 'key must be a UUID v4 in small letters');
  const signature = decode(proof);
  if (signature === null || !verifyEd25519(publicKey, signupMessage({ payment, key }), signature))
    throw new RequestError(403, 'proof is not signed by the wallet');
}

/** Prefix of the 32 bytes of a public key in the DER form that node:crypto reads. */
const DER_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

/** Whether the owner of a key signed a message. Never throws: false for a malformed key or signature. */
function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  try {
    const key = createPublicKey({ key: Buffer.concat([DER_HEAD, publicKey]), format: 'der', type: 'spki' });
    return verify(null, message, key, signature);
  } catch {
    return false;
  }
}
