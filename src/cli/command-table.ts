import type { CliCommand, CommandFlag } from './command.ts';

const format = (...choices: string[]): CommandFlag => ({
  flags: '--format <format>',
  description: 'output format',
  choices,
});
const JSON_FLAG: CommandFlag = { flags: '--json', description: 'one JSON document' };

/** Where a move reads webhooks. Keys come from files or the environment, never from the command line. */
const MOVE_SOURCE: readonly CommandFlag[] = [
  {
    flags: '--from <service>',
    description: 'the hosted service, or a file with a list that was saved',
    choices: ['helius', 'quicknode', 'file'],
    required: true,
  },
  { flags: '--from-url <address>', description: 'base address of its API; default: the public one' },
  { flags: '--from-key-file <file>', description: 'file with its key; or PARHELION_MOVE_FROM_KEY' },
  { flags: '--file <file>', description: 'with --from file: JSON list of webhooks' },
];
const MOVE_TARGET: readonly CommandFlag[] = [
  { flags: '--url <address>', description: 'base address of the daemon; https, http on loopback only', required: true },
  {
    flags: '--key-file <file>',
    description: 'file with a key of the project that gets the webhooks; or PARHELION_MOVE_KEY',
  },
  { flags: '--state <file>', description: 'file that remembers the move; default: parhelion-move.json' },
];

/** The built-in commands; plugins add more. */
export const commandTable: readonly CliCommand[] = [
  {
    path: ['serve'],
    summary: 'run the daemon',
    options: [
      { flags: '--port <number>', description: 'sets http.port' },
      { flags: '--log-level <level>', description: 'sets log.level' },
      {
        flags: '--role <role>',
        description:
          'run only this role: api, indexer or deliverer; several with commas or as several flags; default: PARHELION_ROLE, or all',
        repeatable: true,
      },
      { flags: '--admin-port <number>', description: 'sets admin.port' },
      {
        flags: '--rewind-to <slot>',
        description: 'first roll back blocks above this slot; for this start only',
      },
    ],
    load: () => import('./commands/serve.ts'),
  },
  {
    path: ['init'],
    summary: 'create a configuration file',
    options: [
      { flags: '--output <file>', description: 'output file; default: the file of --config, or ./parhelion.yaml' },
      { flags: '--force', description: 'replace an existing file' },
    ],
    load: async () => ({ run: (await import('./commands/config.ts')).init }),
  },
  {
    path: ['check-config'],
    summary: 'check configuration and plugins; opens no socket and no database',
    options: [format('text', 'json'), JSON_FLAG],
    load: () => import('./commands/check-config.ts'),
  },
  {
    path: ['dump-config'],
    summary: 'show the effective configuration, with secrets masked',
    options: [format('yaml', 'json'), JSON_FLAG],
    load: async () => ({ run: (await import('./commands/config.ts')).showConfig }),
  },
  {
    path: ['list-plugins'],
    summary: 'show the plugins and what they contribute',
    options: [JSON_FLAG],
    load: () => import('./commands/list-plugins.ts'),
  },
  {
    path: ['plugin', 'new'],
    summary: 'create a package with an example plugin',
    argument: { name: 'name', description: 'id of the plugin, and name of the folder' },
    options: [],
    help: 'The plugin has a table, a block processor, a route, a JSON-RPC method and a test.',
    load: () => import('./commands/plugin-new.ts'),
  },
  {
    path: ['migrate'],
    summary: 'upgrade the database to the schema of this version',
    options: [{ flags: '--dry-run', description: 'only show what would be done' }, JSON_FLAG],
    load: async () => ({ run: (await import('./commands/store.ts')).migrateStore }),
  },
  {
    path: ['backfill'],
    summary: 'list and fill gaps (ranges of slots that were passed over), or read a range again',
    options: [
      { flags: '--from <slot>', description: 'first slot of a range to read' },
      { flags: '--to <slot>', description: 'last slot of the range' },
      {
        flags: '--processor <name>',
        description: 'only for this processor; default: all that accept blocks out of order',
      },
      {
        flags: '--by-address',
        description: 'with --from and --to: read only the transactions of watched addresses, not whole blocks',
      },
      { flags: '--gaps', description: 'fill all open gaps' },
      { flags: '--list', description: 'list the gaps, newest first' },
      { flags: '--abandon <id>', description: 'give up a gap permanently' },
      { flags: '--chain <chain>', description: 'main, or devnet', choices: ['main', 'devnet'] },
      JSON_FLAG,
    ],
    help: `A running daemon does the work and this command shows it; without one the work is done here. What is done survives an
interruption: the same command goes on from there. Exit code: 0 when all is filled, 75 when something is left.
Deliveries of a range that was read before are not made again, unless they are older than what the webhooks keep.`,
    load: () => import('./commands/backfill.ts'),
  },
  {
    path: ['backup'],
    summary: 'write a copy of the embedded database, also while the daemon runs',
    options: [{ flags: '--output <file>', description: 'output file; must not exist', required: true }, JSON_FLAG],
    help: `The copy is a consistent snapshot, verified before it gets its final name. For PostgreSQL use its own tools, such as pg_dump.`,
    load: async () => ({ run: (await import('./commands/store.ts')).backup }),
  },
  {
    path: ['restore'],
    summary: 'restore a backup of the embedded database; the daemon must be stopped',
    options: [{ flags: '--input <file>', description: 'file written by backup', required: true }, JSON_FLAG],
    help: `Refused while there is a database in that place: move it away first. The daemon then goes on from the block of the backup: what was
delivered since is delivered again, with the same ids; keys, webhooks and usage of the time since are gone.`,
    load: async () => ({ run: (await import('./commands/store.ts')).restore }),
  },
  {
    path: ['store', 'copy'],
    summary: 'copy all data into an empty database of any kind, and compare both',
    options: [
      {
        flags: '--from <url>',
        description: 'database to copy, as in store.url: sqlite:, sqlite:/path or postgres://…',
        required: true,
      },
      { flags: '--to <url>', description: 'empty database, in the same form', required: true },
      JSON_FLAG,
    ],
    help: `For a stopped daemon. Interrupted, the same command goes on where it was; until it has ended no daemon starts on the target. Passwords
may be left out of the addresses and given as PGPASSWORD or in ~/.pgpass.`,
    load: () => import('./commands/store-copy.ts'),
  },
  {
    path: ['ledger', 'verify'],
    summary: 'read every block of the ledger and report damaged ones, also while the daemon runs',
    options: [{ flags: '--chain <chain>', description: 'main, or devnet', choices: ['main', 'devnet'] }, JSON_FLAG],
    help: `Changes nothing. Damaged blocks are never served: the daemon asks an upstream for them. Exit code: 0 when all is sound, 75 when something
is damaged. A daemon that is just writing may show its newest block as damaged: run it again.`,
    load: async () => ({ run: (await import('./commands/ledger.ts')).verifyFiles }),
  },
  {
    path: ['ledger', 'export'],
    summary: 'write final blocks of the ledger as CAR or Parquet files, also while the daemon runs',
    options: [
      {
        flags: '--format <format>',
        description: 'CAR files of Old Faithful, or Parquet tables',
        choices: ['car', 'parquet'],
        required: true,
      },
      { flags: '--output <folder>', description: 'folder of the files', required: true },
      {
        flags: '--amounts <form>',
        description: 'amounts of Parquet tables: integer (default) is unsigned, decimal is DECIMAL(20, 0)',
        choices: ['integer', 'decimal', 'text'],
      },
      {
        flags: '--from <slot>',
        description: 'first slot; default: where the newest unbroken part of the ledger begins',
      },
      { flags: '--to <slot>', description: 'last slot; default: the newest final one' },
      { flags: '--slots-per-file <number>', description: 'slots of one file; default: 4320, a hundredth of an epoch' },
      { flags: '--chain <chain>', description: 'main, or devnet', choices: ['main', 'devnet'] },
      JSON_FLAG,
    ],
    help: `Files get their names when they are complete; interrupted, the same command goes on where it was. Exit code: 0 when every slot of
the range is known, 75 when some are not: they are named, and left out.`,
    load: async () => ({ run: (await import('./commands/ledger.ts')).exportFiles }),
  },
  {
    path: ['ledger', 'import'],
    summary: 'add the blocks of CAR files to the ledger; the daemon must be stopped',
    options: [
      { flags: '--input <path>', description: 'a CAR file, or a folder of them', required: true },
      { flags: '--chain <chain>', description: 'main, or devnet', choices: ['main', 'devnet'] },
      JSON_FLAG,
    ],
    help: `Every node is compared with its hash, and every block has to follow its parent. Exit code: 0 when all blocks are in the ledger, 75 when
some cannot be read or connected: they are named, and their slots stay unknown; 78 when a file is damaged or of another chain.`,
    load: async () => ({ run: (await import('./commands/ledger.ts')).importFiles }),
  },
  {
    path: ['openapi'],
    summary: 'print the OpenAPI document',
    options: [],
    load: () => import('./commands/openapi.ts'),
  },
  {
    path: ['status'],
    summary: 'show the status of the running daemon',
    options: [JSON_FLAG],
    load: async () => ({ run: (await import('./commands/status.ts')).showStatus }),
  },
  {
    path: ['doctor'],
    summary: 'check machine, configuration, store, upstreams and running daemon, and suggest fixes',
    options: [JSON_FLAG],
    help: `Changes nothing. Exit code: 0 when nothing failed; else that of the failure to mend first: 78 configuration,
57 a database of a newer version, 75 a temporary failure (an upstream, the database, a port, the disk).`,
    load: () => import('./commands/doctor.ts'),
  },
  {
    path: ['reload'],
    summary: 'make the running daemon read its configuration again',
    options: [JSON_FLAG],
    help: `Keys that are marked [reload] in config/parhelion.yaml, and files of certificates, take effect; the others that have changed are
named: they need a restart. Exit code 78: the daemon refused the configuration and keeps the one it has.`,
    load: async () => ({ run: (await import('./commands/status.ts')).reload }),
  },
  {
    path: ['healthcheck'],
    summary: 'exit 0 when the running daemon is alive; with --ready, when it is ready',
    options: [{ flags: '--ready', description: 'check readiness' }, JSON_FLAG],
    load: async () => ({ run: (await import('./commands/status.ts')).healthcheck }),
  },
  {
    path: ['completion'],
    summary: 'print a script that completes commands and options in a shell',
    argument: { name: 'shell', description: 'the shell', choices: ['bash', 'zsh', 'fish'] },
    options: [],
    help: `bash: source <(parhelion completion bash), or write it to /etc/bash_completion.d/parhelion
zsh:  write it to a file _parhelion in a folder of $fpath
fish: write it to ~/.config/fish/completions/parhelion.fish`,
    load: async () => ({ run: (await import('./commands/shell.ts')).completion }),
  },
  {
    path: ['man'],
    summary: 'print the manual page',
    isHidden: true,
    options: [],
    load: async () => ({ run: (await import('./commands/shell.ts')).manual }),
  },
  {
    path: ['signup'],
    summary: 'pay a service for an API key, without contacting its operator',
    options: [
      {
        flags: '--url <address>',
        description: 'base address of the service, with the plugin signup; https, http on loopback only',
        required: true,
      },
      { flags: '--keypair <file>', description: 'wallet that pays: the JSON file of solana-keygen', required: true },
      { flags: '--rpc <address>', description: 'Solana node for the payment; default: SOLANA_RPC_URL' },
      { flags: '--asset <symbol>', description: 'currency of the payment: SOL, USDC, USDT or PYUSD; default: SOL' },
      { flags: '--mint <address>', description: 'currency of the payment: any other token, by its mint' },
      {
        flags: '--max <amount>',
        description: 'maximum payment, such as 0.05; a higher price is refused',
        required: true,
      },
      { flags: '--output <file>', description: 'file for the key; default: parhelion-key.json' },
      JSON_FLAG,
    ],
    help: `Only what is named here is paid: the service's names for tokens do not count, and decimals are those of the mint. Amount, mint
and receiver are shown before anything is signed. The key is made here and kept in the file before anything is paid. When something interrupts the command, run it again with
the same file: it goes on from there and does not pay twice. Exit code: 0 with a key; 75 when it is worth trying again.`,
    load: () => import('./commands/signup.ts'),
  },
  {
    path: ['move', 'plan'],
    summary: 'show which webhooks of a hosted service come along, what changes, and what cannot',
    options: [...MOVE_SOURCE, JSON_FLAG],
    help: 'Changes nothing, neither there nor here.',
    load: async () => ({ run: (await import('./commands/move.ts')).plan }),
  },
  {
    path: ['move', 'run'],
    summary: 'create the webhooks of a hosted service here, each once',
    options: [
      ...MOVE_SOURCE,
      ...MOVE_TARGET,
      { flags: '--inactive', description: 'they stay off until --switch' },
      { flags: '--mirror', description: 'go on and apply what changes there, until interrupted' },
      { flags: '--interval <seconds>', description: 'with --mirror: pause between two rounds; default 60' },
      { flags: '--secrets <file>', description: 'file to which signing secrets are added, one JSON line per webhook' },
      { flags: '--switch', description: 'turn on here what is on there, and end the move' },
      JSON_FLAG,
    ],
    help: `Writes nothing there. Interrupted or killed at any moment, the same command goes on: what was created is found again. Run twice, it
creates nothing twice. Exit code: 75 when a service does not answer: run it again.`,
    load: () => import('./commands/move.ts'),
  },
  {
    path: ['move', 'verify'],
    summary: 'check by their deliveries that the webhooks of a move work here',
    options: [
      ...MOVE_SOURCE,
      ...MOVE_TARGET,
      { flags: '--test', description: 'send a sample event to those without a delivery' },
      JSON_FLAG,
    ],
    help: 'Exit code: 1 when deliveries of a webhook fail.',
    load: async () => ({ run: (await import('./commands/move.ts')).verify }),
  },
  {
    path: ['move', 'cost'],
    summary: 'compare what a month of usage costs at a hosted service and here',
    options: [
      { flags: '--usage <file>', description: 'answer of its usage endpoint, saved as JSON' },
      { flags: '--project <id>', description: 'or the project, to ask for it' },
      { flags: '--from-url <address>', description: 'base address of its API; default: the public one' },
      { flags: '--from-key-file <file>', description: 'file with its key; or PARHELION_MOVE_FROM_KEY' },
      { flags: '--prices <file>', description: 'other prices, and what machine and upstreams cost you, as JSON' },
      JSON_FLAG,
    ],
    load: async () => ({ run: (await import('./commands/move.ts')).cost }),
  },
  {
    path: ['mcp'],
    summary: 'give an agent the tools of a daemon over stdio (Model Context Protocol)',
    options: [
      {
        flags: '--url <address>',
        description: 'base address of the daemon; https, http on loopback only',
        required: true,
      },
      {
        flags: '--key-file <file>',
        description: 'file with the API key, alone or as signup writes it',
        required: true,
      },
    ],
    help: 'For clients that start their servers as commands. Others connect to /mcp of the daemon with the key in a header.',
    load: () => import('./commands/mcp.ts'),
  },
];
