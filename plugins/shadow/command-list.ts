import type { CommandDescription } from '../../src/plugin/host.ts';

const JSON_OPTION = { flags: '--json', description: 'print JSON: one document' };

/** Defaults of `shadow listen`. */
export const DEFAULT_LISTEN = { port: 9_901, waitSeconds: 60, laterMs: 5_000 } as const;

export const SHADOW_COMMANDS = {
  report: {
    path: ['shadow', 'report'],
    summary: 'show how many answers were equal to those of the reference, and what differs',
    options: [
      { flags: '--days <number>', description: 'UTC days that count, today included; default 7' },
      {
        flags: '--threshold <share>',
        description:
          'exit with 1 if a greater share of the compared answers differs without an explanation, such as 0.001',
      },
      { flags: '--limit <number>', description: 'groups of differences that are listed; default 50' },
      { flags: '--markdown', description: 'print Markdown' },
      JSON_OPTION,
    ],
  },
  listen: {
    path: ['shadow', 'listen'],
    summary:
      'receive the webhooks of both services until interrupted, and show what is missing, doubled, later or different',
    options: [
      { flags: '--host <address>', description: 'address to listen on; default 127.0.0.1' },
      { flags: '--port <number>', description: `port; default ${DEFAULT_LISTEN.port}; 0 = any free one` },
      {
        flags: '--wait <seconds>',
        description: `how long the other delivery of an event may take; default ${DEFAULT_LISTEN.waitSeconds}`,
      },
      { flags: '--later <ms>', description: `difference from which one is later; default ${DEFAULT_LISTEN.laterMs}` },
      { flags: '--seconds <number>', description: 'end after this time' },
      JSON_OPTION,
    ],
  },
} satisfies Record<string, CommandDescription>;
