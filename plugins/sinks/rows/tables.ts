import type { SinkColumn, SinkColumnKind, SinkTable } from '../../../src/ports/sink.ts';

/**
 * The tables that sinks write, equal in all targets. A column is only ever added, at the end of its table and nullable; then `ROWS_VERSION`
 * rises. Addresses, hashes and signatures are base58; amounts are raw units.
 */
export const ROWS_VERSION = 1;

const column =
  (isNullable: boolean) =>
  (name: string, kind: SinkColumnKind, description: string): SinkColumn => ({ name, kind, isNullable, description });
const always = column(false);
const maybe = column(true);

const SLOT = always('slot', 'slot', 'slot of the block');
const INDEX = always('transaction_index', 'int', 'position of the transaction in the block, votes included');
const TIME = maybe('block_time', 'time', 'time of the block; null if unknown');
const SIGNATURE = always('signature', 'text', 'first signature of the transaction');
const OUTER = always('instruction_index', 'int', 'position of the instruction in the message');
const INNER = maybe('inner_index', 'int', 'position among the calls of that instruction; null: the instruction itself');

export const SINK_TABLES: readonly SinkTable[] = [
  {
    name: 'blocks',
    description: 'one row per block; filters do not apply',
    key: ['slot'],
    columns: [
      SLOT,
      always('parent_slot', 'slot', 'slot of the parent'),
      always('blockhash', 'text', 'hash of the block'),
      always('previous_blockhash', 'text', 'hash of the parent'),
      maybe('block_height', 'slot', 'number of the block; null if unknown'),
      TIME,
      always('transaction_count', 'int', 'transactions of the block, votes and those that filters leave out included'),
    ],
  },
  {
    name: 'transactions',
    description: 'one row per transaction',
    key: ['slot', 'transaction_index'],
    columns: [
      SLOT,
      INDEX,
      TIME,
      SIGNATURE,
      maybe('version', 'int', 'version of the message; null: legacy'),
      always('is_vote', 'bool', 'a simple vote'),
      always('success', 'bool', 'whether it succeeded'),
      maybe('error', 'json', 'why it failed, as a node writes it; null on success'),
      always('fee_payer', 'text', 'account that paid the fee'),
      always('fee', 'u64', 'lamports'),
      maybe('compute_units', 'u64', 'compute units that it used; null if the node does not report them'),
      always('account_keys', 'texts', 'static keys, then loaded writable, then loaded readonly ones'),
    ],
  },
  {
    name: 'instructions',
    description: 'one row per instruction, calls of other programs included, in the order of execution',
    key: ['slot', 'transaction_index', 'execution_index'],
    columns: [
      SLOT,
      INDEX,
      always('execution_index', 'int', 'position in the order of execution'),
      OUTER,
      INNER,
      maybe('stack_height', 'int', 'depth of the call, 1 for the message; null if the node does not report it'),
      always('program', 'text', 'program that runs'),
      maybe('program_name', 'text', 'name by its interface (IDL); null where none is known'),
      maybe('name', 'text', 'name of the instruction in snake_case; null where none is known'),
      maybe('arguments', 'json', 'arguments by their names; null where they are not known'),
      always('accounts', 'texts', 'accounts in the order of the instruction'),
      always('data', 'bytes', 'data of the instruction'),
    ],
  },
  {
    name: 'transfers',
    description: 'one row per movement of SOL or of a token between two owners; none of failed transactions',
    key: ['slot', 'transaction_index', 'transfer_index'],
    columns: [
      SLOT,
      INDEX,
      always('transfer_index', 'int', 'position in the transaction, in the order of execution'),
      TIME,
      SIGNATURE,
      OUTER,
      INNER,
      always('kind', 'text', 'transfer, mint, burn, wrap, unwrap, changeOwner or withdrawWithheldFee'),
      maybe('from_owner', 'text', 'owner that sends; null: nobody, or unknown'),
      maybe('to_owner', 'text', 'owner that receives; null: nobody, or unknown'),
      maybe('from_account', 'text', 'token account that sends'),
      maybe('to_account', 'text', 'token account that receives'),
      maybe('mint', 'text', 'mint of the token; null: SOL; empty: unknown'),
      always('amount', 'u64', 'raw units, a transfer fee included'),
      maybe('decimals', 'int', 'decimals of the mint; null if the transaction does not contain them'),
      maybe('fee', 'u64', 'raw units that the mint withheld; null if the transaction does not contain them'),
    ],
  },
  {
    name: 'balance_changes',
    description: 'one row per account whose balance of SOL or of a token the transaction changed, failed ones included',
    key: ['slot', 'transaction_index', 'change_index'],
    columns: [
      SLOT,
      INDEX,
      always('change_index', 'int', 'position in the transaction: SOL first, in the order of the keys'),
      TIME,
      SIGNATURE,
      always('account', 'text', 'account, or token account'),
      maybe('owner', 'text', 'owner of the token account; null: SOL, or unknown'),
      maybe('mint', 'text', 'mint of the token; null: SOL; empty: unknown'),
      maybe('decimals', 'int', 'decimals of the mint, 9 for SOL'),
      always('pre_amount', 'u64', 'raw units before, 0 for an account that did not exist'),
      always('post_amount', 'u64', 'raw units after, 0 for an account that no longer exists'),
    ],
  },
  {
    name: 'asset_changes',
    description:
      'one row per change of an NFT, compressed or not, or of a Core asset or collection; none of failed transactions',
    key: ['slot', 'transaction_index', 'change_index'],
    columns: [
      SLOT,
      INDEX,
      always(
        'change_index',
        'int',
        'position in the transaction: leaves of trees first, then in the order of execution',
      ),
      TIME,
      SIGNATURE,
      always(
        'standard',
        'text',
        'bubblegum (a leaf of a tree), core, token (a unit of a mint) or metadata (of a mint)',
      ),
      always('operation', 'text', 'name of the instruction, empty if unknown; of a token: mint, transfer or burn'),
      maybe('asset', 'text', 'id of the asset; null where the instruction names only its metadata'),
      maybe('metadata', 'text', 'account of the metadata; null but for the standard metadata'),
      maybe('owner', 'text', 'owner from then on; null: none, unchanged or not named'),
      maybe('collection', 'text', 'Core collection that the instruction names'),
      maybe('tree', 'text', 'tree of a compressed NFT'),
      maybe('leaf_index', 'slot', 'its leaf in the tree'),
      maybe('seq', 'u64', 'number of the change in the tree'),
    ],
  },
  {
    name: 'logs',
    description: 'one row per line of the log of a transaction',
    key: ['slot', 'transaction_index', 'log_index'],
    columns: [
      SLOT,
      INDEX,
      always('log_index', 'int', 'position in the log'),
      maybe('program', 'text', 'program that runs at this line; null outside of programs, and where the log is cut'),
      always('message', 'text', 'the line; U+0000 is written as U+FFFD'),
    ],
  },
];

const ENTRY = always('entry', 'int', 'position among the rows of this slot');

/** Tables whose rows are not in blocks: they are kept in the store from the time on that a sink writes them. */
export const EVENT_TABLES: readonly SinkTable[] = [
  {
    name: 'account_writes',
    description:
      'one row per account of `sinks.accounts` and block that may have written it, with its state as of `read_slot`',
    key: ['slot', 'entry'],
    columns: [
      SLOT,
      ENTRY,
      TIME,
      always('signature', 'text', 'last transaction of the block that could write the account'),
      always('account', 'text', 'the account'),
      always('read_slot', 'slot', 'final slot at which it was read; its state is that of this slot'),
      always('lamports', 'u64', 'lamports, 0 for an account that does not exist'),
      maybe('owner', 'text', 'program that owns it; null: it does not exist'),
      maybe('executable', 'bool', 'whether it is a program; null: it does not exist'),
      maybe('space', 'slot', 'size of its data; null: it does not exist, or the node does not say'),
      maybe('data', 'bytes', 'its data, at most the first 131,072 bytes; null: it does not exist'),
    ],
  },
  {
    name: 'deliveries',
    description:
      'one row per attempt to deliver an event to a webhook, and per event of a request with several; filters do not apply',
    key: ['slot', 'entry'],
    columns: [
      always('slot', 'slot', 'first final slot that was known after the attempt'),
      ENTRY,
      always('delivery_id', 'slot', 'id of the delivery'),
      always('webhook_id', 'text', 'id of the webhook'),
      always('project_id', 'text', 'project of the webhook'),
      always('signature', 'text', 'transaction that is delivered'),
      always('event_slot', 'slot', 'slot of its block'),
      always('attempt', 'int', 'number of the attempt, from 1'),
      always('started_at_ms', 'slot', 'unix milliseconds'),
      always('duration_ms', 'int', 'milliseconds'),
      maybe('status', 'int', 'status of the answer; null without one'),
      maybe('failure', 'text', 'kind of the failure; null on success'),
      always('outcome', 'text', 'what happens to the delivery: done, retry, failed, discarded or held'),
    ],
  },
];

/** All tables by their names. */
export const ALL_TABLES: readonly SinkTable[] = [...SINK_TABLES, ...EVENT_TABLES];

export const SINK_TABLE_NAMES: readonly string[] = SINK_TABLES.map(({ name }) => name);

/** The tables among `names` whose rows no block contains. */
export const eventTableNames = (names: readonly string[]): readonly string[] =>
  names.filter((name) => EVENT_TABLES.some((table) => table.name === name));
