import type { ChainReader } from '../../../src/kernel/plugin.ts';
import type { NewTree } from '../trees/tree-source.ts';
import { getCompressedBalance, getCompressedBalanceByOwner } from './accounts/balance.ts';
import { getCompressedAccountsByOwner } from './accounts/by-owner.ts';
import { getCompressedAccount, getMultipleCompressedAccounts } from './accounts/single.ts';
import { getIndexerHealth } from './health/health.ts';
import { getIndexerSlot } from './health/slot.ts';
import type { MethodFactory } from './method.ts';
import { getLatestCompressionSignatures, getLatestNonVotingSignatures } from './signatures/latest.ts';
import { getCompressionSignaturesForAccount } from './signatures/of-account.ts';
import { getCompressionSignaturesFor } from './signatures/of-subject.ts';
import { getCompressedTokenAccounts } from './tokens/accounts.ts';
import { getCompressedTokenAccountBalance } from './tokens/balance.ts';
import { getCompressedTokenBalancesByOwner } from './tokens/balances.ts';
import { getCompressedMintTokenHolders } from './tokens/holders.ts';
import { getTransactionWithCompressionInfo } from './transactions/with-compression-info.ts';

export interface AccountMethodsParts {
  readonly chain: ChainReader | null;
  /** Account-compression program, base58. */
  readonly programId: string;
  /** Trees that have to be provable for the indexer to be well. */
  readonly trees: readonly NewTree[];
}

/** All methods that are not about proofs and queues. */
export function accountMethods(parts: AccountMethodsParts): readonly MethodFactory[] {
  const both = [1, 2] as const;
  return [
    ...both.flatMap((version) => [
      getCompressedAccount(version),
      getMultipleCompressedAccounts(version),
      getCompressedAccountsByOwner(version),
      getCompressedTokenAccounts('owner', version),
      getCompressedTokenAccounts('delegate', version),
      getCompressedTokenBalancesByOwner(version),
      getTransactionWithCompressionInfo(parts, version),
    ]),
    getCompressedBalance('getCompressedBalance'),
    getCompressedBalance('getCompressedAccountBalance'),
    getCompressedBalanceByOwner(),
    getCompressedTokenAccountBalance(),
    getCompressedMintTokenHolders(),
    getCompressionSignaturesForAccount(),
    getCompressionSignaturesFor('address'),
    getCompressionSignaturesFor('owner'),
    getCompressionSignaturesFor('tokenOwner'),
    getLatestCompressionSignatures(),
    getLatestNonVotingSignatures(),
    getIndexerHealth(parts),
    getIndexerSlot(),
  ];
}
