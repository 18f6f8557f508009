import type { CommandDescription } from '../../src/plugin/host.ts';

const JSON_OPTION = { flags: '--json', description: 'print JSON: one document' };

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
} satisfies Record<string, CommandDescription>;
