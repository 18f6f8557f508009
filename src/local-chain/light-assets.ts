import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { CodedError } from '../lib/coded-error.ts';
import { keyBytes } from './ledger/accounts.ts';
import type { Vm } from './vm/vm.ts';

const PACKAGE = '@lightprotocol/zk-compression-cli';

interface Program {
  readonly id: string;
  readonly file: string;
  /** SHA-256 of each published build that was tested with the chain: 0.28.3, then 0.27.0. */
  readonly hashes: readonly string[];
}

const PROGRAMS: readonly Program[] = [
  {
    id: 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq',
    file: 'account_compression.so',
    hashes: [
      '8447584bbd10f933d7af9824217de3527353e459ad25f20f1b7a8110e92bbae0',
      'd0c75613d443093c4eb47ba77baaedb45aac7ec1b178c11689c6b78d0db317e9',
    ],
  },
  {
    id: 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m',
    file: 'light_compressed_token.so',
    hashes: [
      '86ceda7a2735e9fd82f3b43b34fc64c36fee2a9f67f06a2efe0ad5274b1e8d31',
      '734d9db378b10addc341831d618bfeefb1421d384498507414a6a151ed371c5e',
    ],
  },
  {
    id: 'Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX',
    file: 'light_registry.so',
    hashes: [
      '183fc4c7e9030b986ff1da104017718296ed2abb7cdee71aa5b4e4a0b9f8d981',
      'b3a0856dbc29c83ca6d7d156b273201056dd60cca02701dcbfad8b4fb707689c',
    ],
  },
  {
    id: 'SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7',
    file: 'light_system_program_pinocchio.so',
    hashes: [
      '556fba6232207afbcc26a70292c2ad7ec218db18ea1fc871e5015de6afaef34a',
      'f211127c4c1ec3f846126383042a7f205c622bbaeb5998b154660b00ae17e619',
    ],
  },
  {
    id: 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV',
    file: 'spl_noop.so',
    hashes: ['9456458d0f60e575a9dd1a47341653fecbf67debc0fdaee7c303ba9b255c971f'],
  },
];

interface AccountFile {
  readonly pubkey: string;
  readonly account: {
    readonly lamports: number;
    readonly data: readonly [string, string];
    readonly owner: string;
    readonly executable: boolean;
  };
}

/** The folder to load from: the given one, else the development dependency's; null if neither exists. */
export function findLightAssets(asked: string | false | null | undefined): string | null {
  if (asked === false) return null;
  if (typeof asked === 'string') {
    if (!existsSync(join(asked, 'bin')) || !existsSync(join(asked, 'accounts'))) {
      throw new CodedError('LOCAL_BAD_PROGRAM', `no folders bin and accounts in ${asked}`, { exitCode: 78 });
    }
    return asked;
  }
  try {
    return dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`));
  } catch {
    return null;
  }
}

/** Loads programs and genesis accounts into a new engine. Throws LOCAL_BAD_PROGRAM when a file is not the published one. */
export function loadLightAssets(vm: Vm, folder: string): void {
  for (const { id, file, hashes } of PROGRAMS) {
    const bytes = readFileSync(join(folder, 'bin', file));
    if (!hashes.includes(createHash('sha256').update(bytes).digest('hex'))) {
      throw new CodedError('LOCAL_BAD_PROGRAM', `${file} is not a published build: its SHA-256 is unknown`);
    }
    vm.deploy(keyBytes(id), bytes);
  }
  for (const { pubkey, account } of accountFiles(join(folder, 'accounts'))) {
    vm.write(keyBytes(pubkey), {
      lamports: BigInt(account.lamports),
      data: Buffer.from(account.data[0], 'base64'),
      ownerBytes: keyBytes(account.owner),
      executable: account.executable,
      rentEpoch: 0n,
    });
  }
}

/** In the order of names: when two files contain one account, the later file is correct. */
function* accountFiles(folder: string): Generator<AccountFile> {
  for (const name of readdirSync(folder).sort()) {
    if (name.endsWith('.json')) yield JSON.parse(readFileSync(join(folder, name), 'utf8')) as AccountFile;
  }
}
