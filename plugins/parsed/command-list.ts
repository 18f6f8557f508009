import type { CommandDescription } from '../../src/plugin/host.ts';

export const explainDescription: CommandDescription = {
  path: ['explain'],
  summary: 'show what a transaction did: its instructions by name, with arguments, accounts and moved amounts',
  argument: { name: 'signature', description: 'signature of the transaction' },
  options: [
    { flags: '--project <id>', description: 'prefer the interfaces that this project has uploaded' },
    { flags: '--json', description: 'one JSON document, as in the answers of /v1/parsed-events/transactions' },
  ],
};
