import type { CommandDescription } from '../../src/plugin/host.ts';

/** Port of `compression snapshot serve`. */
export const SNAPSHOT_PORT = 8825;

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };
const DIR_OPTION = { flags: '--dir <folder>', description: 'folder; default compression.snapshotDir' };

/** The commands of this plugin; `snapshot/commands.ts` and `verify-command.ts` run them. */
export const COMPRESSION_COMMANDS = {
  save: {
    path: ['compression', 'snapshot', 'save'],
    summary: 'write the state of compressed accounts to a file; on a stopped or a running daemon',
    options: [DIR_OPTION, JSON_OPTION],
  },
  load: {
    path: ['compression', 'snapshot', 'load'],
    summary: 'load a snapshot into the store of a stopped daemon, which then continues from there',
    needsStoppedDaemon: true,
    options: [
      { flags: '--file <file>', description: 'a file that `snapshot save` wrote' },
      { flags: '--url <address>', description: 'instead of a file: the address of `snapshot serve`' },
      { flags: '--replace', description: 'replace the compressed accounts in the store' },
      { flags: '--offline', description: 'do not compare with the chain' },
      JSON_OPTION,
    ],
  },
  serve: {
    path: ['compression', 'snapshot', 'serve'],
    summary: 'serve the snapshots of a folder over HTTP until interrupted: /latest, or by name',
    options: [
      DIR_OPTION,
      { flags: '--host <address>', description: 'address to listen on; default 127.0.0.1' },
      { flags: '--port <number>', description: `port; default ${SNAPSHOT_PORT}; 0 = any free one` },
      JSON_OPTION,
    ],
  },
  verify: {
    path: ['compression', 'verify'],
    summary:
      'walk Merkle trees: every stored page, every node, the leaves against the rows, the root against the chain',
    options: [{ flags: '--tree <key>', description: 'only this tree; default all' }, JSON_OPTION],
  },
} satisfies Record<string, CommandDescription>;
