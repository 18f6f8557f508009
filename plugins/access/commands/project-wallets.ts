import type { Command } from '../../../src/kernel/plugin.ts';
import { type CommandParts, JSON_OPTION } from './common.ts';

const ID = { flags: '--id <id>', description: 'id of the project, from `projects list`', required: true };
const WALLET = { flags: '--wallet <address>', description: 'wallet of a member, base58', required: true };

export function projectWalletCommands({ wallets }: CommandParts): Command[] {
  return [
    {
      path: ['projects', 'add-wallet'],
      summary: 'make a wallet a member of a project: keys may then be made for it (`keys create --wallet`)',
      options: [ID, WALLET, JSON_OPTION],
      async run(options, io) {
        const [id, wallet] = [String(options['id']), String(options['wallet'])];
        const added = await io.store.write((tx) => wallets.add(tx, id, wallet));
        if (options['json'] === true) io.json({ id, wallet, added });
        else io.line(added ? `${wallet} is a member of project ${id}` : `${wallet} was a member before`);
      },
    },
    {
      path: ['projects', 'remove-wallet'],
      summary: 'end the membership of a wallet, and its keys; a running daemon notices within a second',
      options: [ID, WALLET, JSON_OPTION],
      async run(options, io) {
        const [id, wallet] = [String(options['id']), String(options['wallet'])];
        const revoked = await io.store.write((tx) => wallets.remove(tx, id, wallet));
        if (options['json'] === true) io.json({ id, wallet, removed: revoked !== null, revokedKeys: revoked ?? 0 });
        else
          io.line(
            revoked === null ? `${wallet} is no member` : `${wallet} is no member any more; keys ended: ${revoked}`,
          );
      },
    },
  ];
}
