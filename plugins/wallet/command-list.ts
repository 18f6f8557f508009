import type { CommandDescription } from '../../src/plugin/host.ts';

const ADDRESS = { flags: '--address <wallet>', description: 'address, base58', required: true } as const;
const JSON_OPTION = { flags: '--json', description: 'one JSON document' } as const;

/** Commands for operators; `operator.ts` runs them. */
export const WALLET_COMMANDS = {
  follow: {
    path: ['wallet', 'follow'],
    summary: 'index a wallet and keep it current permanently',
    options: [ADDRESS, JSON_OPTION],
  },
  unfollow: {
    path: ['wallet', 'unfollow'],
    summary: 'stop keeping a wallet current permanently; it is dropped after wallet.idleDays without a request',
    options: [ADDRESS, JSON_OPTION],
  },
  status: {
    path: ['wallet', 'status'],
    summary: 'list indexed wallets and their progress',
    options: [{ flags: ADDRESS.flags, description: ADDRESS.description }, JSON_OPTION],
  },
  backfill: {
    path: ['wallet', 'backfill'],
    summary: 'make the running daemon read the past of a wallet again',
    options: [ADDRESS, JSON_OPTION],
  },
} satisfies Record<string, CommandDescription>;
