/**
 * What to do about each coded error, for docs/reference/errors.md. A key that ends in `_` covers all codes of an area without advice of
 * their own; the longest matching key wins.
 */
export const ADVICE: Readonly<Record<string, string>> = {
  ACCESS_: 'Correct the value; `--help` of the command shows its form.',
  ACCESS_PROJECT_ENABLED: '`parhelion projects disable` first; the keys stop working then.',
  ACCESS_PLANS_INVALID: 'Correct the file of `access.plansFile`; the message names line and value.',
  ACCESS_NOT_A_MEMBER: 'Add the wallet first: `parhelion projects add-wallet`.',
  ACCESS_UNKNOWN_KEY: '`parhelion keys list` shows the ids of keys.',
  ACCESS_UNKNOWN_PLAN: 'Use a name of `config/plans.yaml`, or of the file of `access.plansFile`.',
  ACCESS_UNKNOWN_PROJECT: '`parhelion projects list` shows the ids of projects.',
  CHAIN_: 'Check the upstreams with `parhelion doctor`. The daemon continues when one responds.',
  CHAIN_BAD_BLOCK: 'The nodes of `upstream.urls` belong to different chains, or one of them is faulty: remove it.',
  CHAIN_BAD_TRANSACTION:
    'If a newer transaction version is out, raise `follow.maxSupportedTransactionVersion`; otherwise report it.',
  CHAIN_NO_QUORUM:
    'The message names who says what. Compare the blocks with an explorer, and take the upstream that is wrong out of `upstream.urls`.',
  CHAIN_RPC_ERROR: 'The message comes from the node; check the node.',
  CLI_USAGE: '`--help` of the command lists what it takes.',
  CLI_BUG: 'Report it with the stack.',
  COMPRESSION_: 'The message names the tree; `parhelion compression verify` checks all of them.',
  COMPRESSION_SNAPSHOT_: 'Use a snapshot of the same chain and version, or save it again.',
  COMPRESSION_SNAPSHOT_FETCH:
    'Check the address and that the other daemon serves snapshots; then run the command again.',
  COMPRESSION_SNAPSHOT_IN_USE: 'Load it into an empty store.',
  COMPRESSION_SNAPSHOT_LISTEN: 'Choose another address or port.',
  COMPRESSION_TREE_UNDECLARED: 'Declare the tree in `compression.trees`, or use an upstream that has its account.',
  COMPRESSION_USAGE: '`--help` of the command shows which options can be combined.',
  CONFIG_: 'Correct what the message lists; `parhelion check-config --config FILE` repeats the check.',
  CONFIG_UNREADABLE: 'Check path and permissions of the file that the message names.',
  DATA_DIR_: 'Check `dataDir`, and run the command as the user of the daemon or as root.',
  DAEMON_NOT_RUNNING: 'Start it; if it runs, use its configuration file: `--config`, or `PARHELION_CONFIG`.',
  DAEMON_UNREACHABLE: 'Look at its log; if it hangs, restart it.',
  DAEMON_RUNNING: 'Stop the daemon first, or run the command where it is stopped.',
  DAEMON_STOPPED: 'Nothing: the daemon was stopped.',
  DASHBOARD_: 'Install the program again: files are missing.',
  DASHBOARD_BAD_OPERATOR: 'Choose another name or role; `parhelion operators list` shows who has a token.',
  DASHBOARD_OIDC:
    'Check `dashboard.oidc` and what the provider has on record of this client; operators with a token still log in.',
  DASHBOARD_OPERATOR_EXISTS: 'Choose another name, or delete the operator first.',
  DASHBOARD_UNKNOWN_OPERATOR: '`parhelion operators list` shows the names.',
  DASHBOARD_TOKEN_CONFIGURED: 'Change `dashboard.operatorToken` in the configuration, or remove it first.',
  FOLLOW_DEEP_FORK:
    'Final blocks changed: an upstream belongs to another chain or returned wrong data. Check the upstreams, then see `serve --rewind-to`.',
  FOLLOW_FENCED:
    'Nothing on PostgreSQL: the service manager restarts the process, and it stands by. On SQLite run one indexer.',
  FOLLOW_GAPS_LEFT: 'Run the same command again; the lines below name the gaps and what hinders them.',
  FOLLOW_GAP_TAKEN: 'Nothing: the other process fills it.',
  FOLLOW_: 'Use slots that are final and in the store.',
  PROCESSOR_:
    'The log line names plugin, slot and stack. Update or remove the plugin; with `follow.onError: skip-plugin` the chain continues without it.',
  HTTP_: 'Free the address, or configure another one in `http` or `admin`.',
  JOB_: 'The attempt is repeated; if it keeps failing, the previous log line shows why.',
  LOCAL_CHAIN_FILE:
    'Delete the folder `local` of the data folder for a new chain; it takes the projects and keys of that chain with it.',
  LOCAL_: 'Affects only the local chain, which is for demos and tests.',
  LOCAL_ENGINE_MISSING: 'Install the package that the message names, or set `upstream.urls`.',
  MOVE_: 'Correct the options; `parhelion move run --help` lists them.',
  MOVE_SERVICE: 'Run the command again: it creates nothing twice.',
  MOVE_REFUSED: 'The message has the answer of the service. Check the key, and the limit of webhooks of the project.',
  MOVE_STATE: 'Name another file with `--state`, or wait until the other move ends.',
  MCP_USAGE: 'Correct the options; `parhelion mcp --help` lists them.',
  NOTIFY_: 'Use the `.socket` files of the folder `systemd`, and change only their addresses.',
  OUTBOUND_: 'The receiver or the document server failed; deliveries are retried automatically.',
  OUTBOUND_BAD_URL: 'Correct the address.',
  OUTBOUND_BLOCKED_ADDRESS:
    'If the network is yours, allow it: `webhooks.allowCidrs`, `token-metadata.offChain.allowCidrs`.',
  PLUGIN_: 'The message names the plugin: correct its configuration, or ask its author.',
  PLUGIN_RELOAD_REFUSED: 'Nothing has changed. Reload again; if a role stays silent, restart the daemon.',
  PLUGIN_START_TIMEOUT: 'See the log of the plugin; raise `lifecycle.startTimeoutMs` if it only needs more time.',
  POSEIDON_: 'Report it: data on the chain does not match what the programs write.',
  PRICES_BAD_ANSWER: 'Check `prices.baseUrl`.',
  PRICES_FILE_MISSING: 'Set `prices.file`.',
  ROLE_: 'The log before it shows why; the service manager restarts the daemon.',
  SHADOW_CONFIG: 'Set `shadow.reference.url`, or remove `shadow` from the list of plugins.',
  SHADOW_LISTEN: 'Free the port, or choose another one with `--port`.',
  SHADOW_THRESHOLD: '`parhelion shadow report` lists the differences; the dashboard shows both answers of each.',
  SHADOW_USAGE: '`--help` of the command shows the form of its options.',
  SIGNUP_: 'Correct the options; `parhelion signup --help` lists them.',
  SINKS_CONFIG: 'Correct the section `sinks` of the configuration, or add the plugin with that kind to `plugins`.',
  SINKS_DIFFERS:
    'The output names tables and slots. Find out who changed the rows; a new target is filled again from the ledger.',
  SINKS_ACCOUNTS:
    'Wait until an upstream answers, or name one that is at the newest final slot; the sink goes on by itself.',
  SINKS_HOLE: 'Add an upstream that has the slots (`archive: true`); the sink goes on by itself.',
  SINKS_MOVED: 'Nothing. If it repeats, two daemons write the same target: remove it from one.',
  SINKS_OTHER_CHAIN: 'Give the sink another schema or folder.',
  SINKS_REFUSED: 'Update the daemon, or give the sink another schema or folder.',
  SINKS_UNREACHABLE: 'Start the database, or make room on its disk; the sink goes on by itself.',
  SINKS_USAGE: '`--help` of the command lists its values; `parhelion sinks list` shows names and slots.',
  SIGNUP_CONFIG: 'Correct the section `signup` of the configuration.',
  SIGNUP_LOST: 'Nothing was paid; run the command again.',
  SIGNUP_PER_CALL: 'Correct `signup.perCall`, or install the package that the error names.',
  SIGNUP_NO_ACCESS: 'Add `access` to `plugins`.',
  SIGNUP_PAYMENT: 'Run the command again: it does not pay twice.',
  SIGNUP_SERVICE: 'Check the address; run the command again: it does not pay twice.',
  SIGNUP_WAITING: 'Run the command again: it does not pay twice.',
  STORE_: 'Check the database with `parhelion doctor`.',
  STORE_BACKUP: 'The message gives the reason.',
  STORE_BUSY: 'Another program has locked the database; stop it. The call can be repeated.',
  STORE_CONFLICT: 'Report it: the daemon handles expected conflicts itself.',
  STORE_CONSTRAINT: 'Report it.',
  STORE_COPY: 'The message says what to do; the source is never changed.',
  STORE_CORRUPT:
    'Stop the daemon, keep the file that the message names, and restore a backup. Starting again does not help.',
  STORE_DESCRIPTORS: 'Raise `LimitNOFILE` of the unit (`ulimit -n`), or lower `http.maxConnections`.',
  STORE_ENGINE_MISSING:
    'In a checkout: `npm rebuild`. With Node 20 and the npm package: `npm install --global better-sqlite3@12.11.1`. Otherwise install the program again for this version of Node.',
  LEDGER_DAMAGED:
    'Check the disk; `parhelion ledger verify` names damaged blocks. Final blocks are read from an upstream instead.',
  LEDGER_FULL: 'Free some space, or lower `ledger.retain.bytes`; the follower then continues.',
  LEDGER_IO:
    'Check the disk and its log, and owner and permissions of `dataDir`; `parhelion ledger verify` shows damaged blocks.',
  ARCHIVE_REFUSED:
    'The message is that of ClickHouse: user, rights, disk or version. The ledger keeps the blocks until it works again.',
  ARCHIVE_UNREACHABLE:
    'Check `ledger.archive` and the server; for `chdb:` install the package chdb. The ledger keeps the blocks until it answers.',
  LEDGER_EXPORT:
    'Check the folder of `--output` and its disk, and choose `--to` at or below the slot in the message; then run the command again.',
  LEDGER_IMPORT:
    'The message names file and block. Get the file again, or remove the ledger if its blocks are the wrong ones.',
  LEDGER_MISSING: 'Use the configuration file of the daemon, and set `ledger.retain.hours`.',
  STORE_FULL: 'Free some space; the daemon continues where it stopped.',
  STORE_IO: 'Check the disk and its log. The process exits because its writes may be lost.',
  STORE_MISSING:
    'Use the configuration file of the daemon (`--config`, `PARHELION_CONFIG`), or start it first; `parhelion migrate` also creates the database.',
  STORE_READ_ONLY: 'Check owner, permissions and mount of `dataDir`.',
  STORE_SCHEMA_NEWER: 'Run the newer version again, or restore a backup from before the upgrade.',
  STORE_WRONG_CHAIN: 'Use a store of its own for each chain, or the upstreams of this one.',
  STREAM_: 'Install @triton-one/yellowstone-grpc, or set `follow.stream.plugin` to null.',
  STREAMS_LISTEN: 'Choose another `streams.grpc.host` or `streams.grpc.port`, or end what listens there.',
  STREAMS_TLS: 'Set `streams.grpc.tls` to a certificate and its key in PEM, or remove both.',
  TRACES_: 'Set `traces.endpoint`, or remove `traces` from `plugins`.',
  TLS_: 'Check the files that the message names, of `http.tls` or `admin.tls`; `parhelion doctor` checks both.',
  TOKEN_METADATA_LIST_UNREADABLE: 'Check `token-metadata.tokenList.path`.',
  TOKEN_METADATA_TOO_MANY_MINTS: 'Request fewer at once, or raise `token-metadata.maxMintsPerLookUp`.',
  UPSTREAM_: 'Check the upstreams with `parhelion doctor`. Another one is used meanwhile.',
  WALLET_: 'The request can be repeated; if it keeps failing, report it.',
  WALLET_ASSETS_WITHHELD: 'The log names the tree. The daemon reads it again; retry later.',
  WALLET_BEHIND: 'Repeat the request; check for upstreams that lag.',
  WALLET_BUDGET:
    'Raise the `budgets` of the project (plans file, `projects set-plan`); unused wallets are deleted after `wallet.idleDays`.',
  WALLET_INDEX_FULL: 'Raise `wallet.limits.wallets`, or lower `wallet.idleDays`.',
  WALLET_LABELS_UNREADABLE: 'Check the files of `wallet.identity.files`.',
  WALLET_NO_ADDRESS: 'Give an address: base58 of 32 bytes.',
  WALLET_NOT_A_WALLET: 'Use the address of a wallet.',
  WALLET_TOO_BUSY:
    '`parhelion wallet follow` indexes it anyway; otherwise raise `wallet.limits.transactionsPerMinute`.',
  WALLET_TOO_LARGE: '`parhelion wallet follow` indexes it anyway; otherwise raise `wallet.limits.transactions`.',
  WALLET_TOO_MANY_NEW: 'Repeat the request after `Retry-After`, or raise `newWalletsPerMinute` of the plan.',
  PARSED_NOT_FOUND:
    'Compare the signature and the network. A new transaction is found once it is confirmed; old ones need an upstream with a whole history.',
  PARSED_IDL_COSTLY: 'Upload a simpler interface of the program, or delete the one that the project has uploaded.',
  PARSED_UNAVAILABLE: '`parhelion doctor` checks the upstreams; then run the command again.',
  PARSED_UNREADABLE: 'Report it with the signature.',
  PARSED_USAGE: '`--help` of the command shows its values.',
  WALLET_UNKNOWN: '`parhelion wallet follow` indexes it.',
  WEBHOOKS_EMAIL: 'Correct `webhooks.email`, or install the package that the message names.',
  WEBHOOKS_LISTEN: 'Choose another address or port.',
  WEBHOOKS_NO_OUTBOX: 'Report it.',
  WEBHOOKS_OPERATIONAL_URL: 'Correct `webhooks.operational`.',
  WEBHOOKS_TEST_FAILED: 'The message contains the response of the receiver.',
  WEBHOOKS_USAGE: '`--help` of the command lists its values.',
};

/** Null if there is none. */
export function adviceFor(code: string): string | null {
  const keys = Object.keys(ADVICE).filter((key) => key === code || (key.endsWith('_') && code.startsWith(key)));
  const longest = keys.sort((a, b) => b.length - a.length)[0];
  return longest === undefined ? null : ADVICE[longest]!;
}

export const EXIT_ADVICE: Readonly<Record<string, readonly [meaning: string, toDo: string]>> = {
  ok: ['success, or stopped on request', ''],
  negative: ['what a command checked is not as it should be', 'its output says what'],
  schemaNewer: ['the store was migrated by a newer version', 'run that version, or restore a backup from before'],
  usage: ['the command line is wrong', '`--help` of the command'],
  bug: ['an unexpected error', 'report it with the log line'],
  temporary: [
    'an upstream or the database is unreachable, or the disk is full',
    'start it again; systemd does so automatically',
  ],
  config: ['the configuration is wrong', '`parhelion check-config`'],
};

export const RPC_ADVICE: Readonly<Record<string, string>> = {
  parse: 'send valid JSON',
  invalidRequest: 'send a JSON-RPC 2.0 object, or a batch within the limits of the plan',
  methodNotFound: 'the method does not exist here; see `/docs`',
  invalidParams: '`data.details` names the parameter',
  internal: 'report it with the request id of `data.details`; for proofs, `data.details` contains the reason',
  notFound: 'the requested item does not exist (yet)',
  unsupportedVersion: 'send `maxSupportedTransactionVersion`',
  minContextSlot: 'send it again, or with a lower `minContextSlot`',
  transactionNotFound: 'no upstream has this transaction',
  unauthorized: 'send a valid key',
  forbidden: 'the message says whether address, plan or permission is missing',
  tooManyRequests: 'wait for `Retry-After`; `max usage reached` means that there are no credits left',
  unavailable: 'wait for `Retry-After` and send it again',
  timeout: 'send it again; request less data',
  streamLimit: 'only of `parsedTransactionSubscribe`: use several subscriptions',
  streamNotReady: 'only of `parsedTransactionSubscribe`: send it again',
  streamRate: 'only of `parsedTransactionSubscribe` and `parsedTransactionUnsubscribe`: send it again after a second',
  streamCount: 'only of `parsedTransactionSubscribe`: open another connection',
};

export const REFUSAL_ADVICE = {
  'no-key': 'send the key as `?api-key=` or `X-Api-Key`',
  'bad-key': 'the key is wrong, revoked or expired: make a new one',
  ip: '`parhelion keys allow-ip`, or call from an allowed network',
  plan: '`parhelion projects set-plan`',
  permission: 'use a key that has the permission',
  credits: '`parhelion projects grant`, or wait for the next cycle',
  rate: 'wait for `Retry-After`',
  batch: 'send smaller batches',
} as const;
