import { decode32 } from '../../src/lib/base58.ts';
import { EXIT } from '../../src/lib/coded-error.ts';
import {
  type Clock,
  CodedError,
  type Command,
  type CommandIo,
  defineRoute,
  json,
  type Route,
  type Store,
  Type,
} from '../../src/plugin/plugin.ts';
import { address, count, flag, orNull, slot, text } from '../../src/solana/schemas.ts';
import { WALLET_COMMANDS } from './command-list.ts';
import { rangeOf, whereMayCome } from './store/range.ts';
import type { WalletDb, WalletRow } from './store/tables.ts';
import { readWallet, registerWallet, unfollowWallets } from './store/wallets.ts';

const MAX_SHOWN = 1_000;

/** `parhelion wallet follow|unfollow|status|backfill`: on a stopped or a running daemon, which does the work. */
export function followCommands(clock: Clock): readonly Command[] {
  return [followCommand(clock), unfollowCommand(), statusCommand(), backfillCommand(clock)];
}

function followCommand(clock: Clock): Command {
  return {
    ...WALLET_COMMANDS.follow,
    async run(options, io) {
      const { address, key } = addressOf(options);
      await io.store.write(async (tx) => {
        await registerWallet(tx, { key, address, now: clock.now(), isPinned: true });
      });
      await show(io, [await known(io, address)], options['json'] === true);
    },
  };
}

function unfollowCommand(): Command {
  return {
    ...WALLET_COMMANDS.unfollow,
    async run(options, io) {
      const { address } = addressOf(options);
      const row = await known(io, address);
      await io.store.write(async (tx) => {
        await (tx.db as WalletDb)
          .updateTable('wallet_wallets')
          .set({ is_pinned: 0 })
          .where('id', '=', row.id)
          .execute();
        await unfollowWallets(tx, [row.id]);
      });
      await show(io, [await known(io, address)], options['json'] === true);
    },
  };
}

function statusCommand(): Command {
  return {
    ...WALLET_COMMANDS.status,
    async run(options, io) {
      const one = options['address'];
      const rows =
        typeof one === 'string'
          ? [await known(io, one)]
          : await (io.store.read as WalletDb)
              .selectFrom('wallet_wallets')
              .selectAll()
              .orderBy('id')
              .limit(MAX_SHOWN)
              .execute();
      await show(io, rows, options['json'] === true);
    },
  };
}

function backfillCommand(clock: Clock): Command {
  return {
    ...WALLET_COMMANDS.backfill,
    async run(options, io) {
      const { address, key } = addressOf(options);
      await io.store.write(async (tx) => {
        const id = await registerWallet(tx, { key, address, now: clock.now() });
        // Stored rows stay and are found again.
        await (tx.db as WalletDb)
          .updateTable('wallet_wallets')
          .set({ floor: null, head: null, is_complete: 0, pruned_below: null, found: 0, last_error: null })
          .where('id', '=', id)
          .where(whereMayCome('start again'))
          .execute();
      });
      await show(io, [await known(io, address)], options['json'] === true);
    },
  };
}

function addressOf(options: Readonly<Record<string, unknown>>): { readonly address: string; readonly key: Uint8Array } {
  const address = String(options['address'] ?? '');
  const key = decode32(address);
  if (key === null)
    throw new CodedError('WALLET_NO_ADDRESS', `'${address.slice(0, 64)}' is not a valid Solana address`, {
      exitCode: EXIT.usage,
    });
  return { address, key };
}

async function known({ store }: CommandIo, address: string): Promise<WalletRow> {
  const row = await readWallet(store.read as WalletDb, address);
  if (row === undefined)
    throw new CodedError('WALLET_UNKNOWN', `${address.slice(0, 64)} is not indexed`, { exitCode: EXIT.usage });
  return row;
}

async function show(io: CommandIo, rows: readonly WalletRow[], asJson: boolean): Promise<void> {
  const liveSlot = await readLiveSlot(io.store);
  const views = rows.map((row) => walletView(row, liveSlot));
  if (asJson) io.json(views);
  else if (views.length === 0) io.line('no wallets');
  else for (const view of views) io.line(`${view.address}  ${view.state}, ${view.transactions} transactions`);
}

/** The newest slot whose blocks were read for the followed wallets. */
async function readLiveSlot({ read }: Store): Promise<number | null> {
  const row = await (read as WalletDb).selectFrom('wallet_state').select('live_slot').executeTakeFirst();
  return row?.live_slot ?? null;
}

/** A wallet of the index for operators. */
function walletView(row: WalletRow, liveSlot: number | null) {
  return {
    address: row.address,
    state: stateOf(row),
    followed: row.is_followed === 1,
    pinned: row.is_pinned === 1,
    fromSlot: row.floor,
    toSlot: rangeOf(row) === 'joined' ? Math.max(row.head ?? 0, liveSlot ?? 0) : row.head,
    complete: row.is_complete === 1,
    prunedBelow: row.pruned_below,
    transactions: row.stored,
    trouble: row.last_error,
  };
}

const REFUSALS = {
  busy: (size: number) => `too busy: about ${size} transactions a minute`,
  large: (size: number) => `too large: more than ${size} transactions`,
  budget: (size: number) => `no project that requested it has room for its ${size} transactions`,
} as const;

function stateOf(row: WalletRow): string {
  if (row.refused !== null) return REFUSALS[row.refused](row.refused_size ?? 0);
  if (row.dropped_at !== null) return 'is being deleted: no requests';
  if (row.head === null) return 'waits to be indexed';
  if (row.last_error !== null) return `stalled: ${row.last_error}`;
  if (row.is_complete === 0 && row.pruned_below === null) return `is being indexed, down to slot ${row.floor}`;
  const past = row.is_complete === 1 ? 'complete' : `without data below slot ${row.pruned_below}`;
  return rangeOf(row) === 'joined' ? `${past}, current` : `${past}, up to slot ${row.head}`;
}

const MAX_LISTED = 500;
const slotOrNull = (description: string) => orNull(slot(description));

export const walletReply = Type.Object(
  {
    address: address('The wallet'),
    state: text('State, as text for people', 'complete, current'),
    followed: flag('Whether its blocks are indexed', true),
    pinned: flag('Whether it is kept without requests'),
    fromSlot: slotOrNull('First indexed slot'),
    toSlot: slotOrNull('Last indexed slot'),
    complete: flag('Whether everything back to its first transaction is indexed', true),
    prunedBelow: slotOrNull('The upstream has nothing below'),
    transactions: count('Stored transactions, those of its token accounts included', 250),
    trouble: orNull(text('Why it is stalled', 'the upstream does not answer')),
  },
  { title: 'IndexedWallet', description: 'A wallet of the index' },
);

/** `GET /v0/admin/wallets`: indexed wallets, in the order of their first request. */
export function walletsRoute(store: Store): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/wallets',
    summary: 'Indexed wallets and their progress',
    tag: { name: 'Operation', description: 'Health, metrics and state of the daemon' },
    auth: 'admin',
    errors: 'plain',
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: MAX_LISTED, default: 100, description: 'Wallets of a page' }),
      cursor: Type.Optional(
        Type.String({ pattern: '^\\d{1,15}$', description: '`nextCursor` of the page before', examples: ['100'] }),
      ),
    }),
    replies: {
      200: Type.Object(
        {
          wallets: Type.Array(walletReply, { description: 'Wallets' }),
          nextCursor: orNull(text('`cursor` of the next page', '200')),
        },
        { description: 'A page of wallets' },
      ),
    },
    async handler({ query: { limit, cursor } }) {
      const rows = await (store.read as WalletDb)
        .selectFrom('wallet_wallets')
        .selectAll()
        .where('id', '>', cursor === undefined ? -1 : Number(cursor))
        .orderBy('id')
        .limit(limit + 1)
        .execute();
      const shown = rows.slice(0, limit);
      const liveSlot = await readLiveSlot(store);
      const last = rows.length > limit ? shown.at(-1) : undefined;
      return json({
        wallets: shown.map((row) => walletView(row, liveSlot)),
        nextCursor: last === undefined ? null : String(last.id),
      });
    },
  });
}
