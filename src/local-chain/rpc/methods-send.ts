import { parseInner } from '../../solana/json-parsed/instruction.ts';
import { base64, exact } from '../../solana/json-parsed/layout.ts';
import { accountFormatOf, accountJson } from '../encode/account.ts';
import {
  airdropConfig,
  atMost,
  contextConfig,
  invalidParams,
  list,
  pubkey,
  RPC,
  rpcError,
  sendConfig,
  simulateConfig,
  text,
  u64,
} from '../encode/params.ts';
import { isFresh } from '../ledger/bank.ts';
import { feeOf, innerJson, tokenBalances, unitPriceOf } from '../ledger/record.ts';
import type { LedgerBlock } from '../ledger/state.ts';
import { decodeMessage } from '../vm/transaction.ts';
import type { VmOutcome } from '../vm/vm.ts';
import { type BankView, inContext, type LocalNode, type Methods, method, sendingBank } from './method.ts';
import { parseContext } from './methods-accounts.ts';
import { errorText, messageBytes, type Simulation, simulate, transactionOf } from './simulation.ts';

const HASH_LIFE_BLOCKS = 150;
const MAX_AIRDROP_LAMPORTS = 100_000_000_000_000;
const FEE_HISTORY_BLOCKS = 150;

export const sendMethods: Methods = {
  getLatestBlockhash: method([], [contextConfig], (node, config) => {
    const { slot, block } = sendingBank(node, config);
    return inContext(slot, blockhashOf(block));
  }),
  isBlockhashValid: method([text], [contextConfig], (node, value, config) => {
    const hash = pubkey(value, '');
    const { slot, block } = sendingBank(node, config);
    return inContext(slot, node.bank.state.isRecentHash(hash, block));
  }),
  getFeeForMessage: method([text], [contextConfig], (node, value, config) => {
    const bytes = messageBytes(value);
    const { slot, block, accounts } = sendingBank(node, config);
    const message = decodeMessage(bytes);
    if (message === null) throw invalidParams('invalid transaction message: index out of bounds');
    if (message.lookups.some((lookup) => accounts.get(lookup.accountKey) === null)) {
      throw invalidParams(
        'invalid transaction message: Attempted to lookup addresses from a table that does not exist',
      );
    }
    const transaction = { ...message, bytes, signatures: [] };
    return inContext(slot, isFresh(node.bank, transaction, block, accounts.get) ? feeOf(message) : null);
  }),
  sendTransaction: method([text], [sendConfig], (node, value, config) => {
    const transaction = transactionOf(value, config?.encoding);
    const skip = config?.skipPreflight === true;
    const bank = sendingBank(node, {
      commitment: skip ? 'processed' : config?.preflightCommitment,
      minContextSlot: config?.minContextSlot,
    });
    const preflight = simulate(node, bank, transaction, { verifySignatures: !skip, anyHash: skip });
    if (!skip && preflight.outcome.err !== null) throw preflightFailure(preflight);
    // The caller finds out the result by the signature.
    node.submit(transaction);
    return transaction.signatures[0];
  }),
  simulateTransaction: method([text], [simulateConfig], (node, value, config) => {
    const transaction = transactionOf(value, config?.encoding);
    const bank = sendingBank(node, config);
    const { sigVerify = false, replaceRecentBlockhash = false } = config ?? {};
    if (replaceRecentBlockhash && sigVerify) {
      throw invalidParams('sigVerify may not be used with replaceRecentBlockhash');
    }
    const options = { verifySignatures: sigVerify, anyHash: replaceRecentBlockhash };
    const simulation = simulate(node, bank, transaction, options);
    const { outcome, keys } = simulation;
    return inContext(bank.slot, {
      ...simulationJson(simulation),
      ...balancesJson(node, simulation),
      accounts: simulatedAccounts(node, bank, simulation, config?.accounts),
      innerInstructions: config?.innerInstructions === true ? parseInner(innerJson(outcome), keys.all) : null,
      loadedAddresses: keys.loaded,
      replacementBlockhash: replaceRecentBlockhash ? blockhashOf(bank.block) : null,
    });
  }),
  requestAirdrop: method([text, u64], [airdropConfig], (node, address, lamports, config) => {
    const key = pubkey(address);
    if (config?.recentBlockhash !== undefined) pubkey(config.recentBlockhash);
    if (lamports > MAX_AIRDROP_LAMPORTS) throw rpcError(RPC.internal, 'Internal error');
    return node.airdrop(key, BigInt(lamports));
  }),
  getRecentPrioritizationFees: method([], [list(text)], (node, addresses = []) => {
    const keys = atMost(addresses, 128).map((address) => pubkey(address));
    return node.bank.state
      .blocks()
      .slice(-FEE_HISTORY_BLOCKS)
      .map((block) => {
        const prices = block.records
          .filter((record) => keys.every((key) => record.keys.includes(key)))
          .map((record) => Number(unitPriceOf(record.transaction)));
        return { prioritizationFee: prices.length === 0 ? 0 : Math.min(...prices), slot: block.slot };
      });
  }),
};

function blockhashOf(block: LedgerBlock) {
  return { blockhash: block.blockhash, lastValidBlockHeight: block.height + HASH_LIFE_BLOCKS };
}

function preflightFailure(simulation: Simulation): Error {
  return rpcError(RPC.sendFailed, `Transaction simulation failed: ${errorText(simulation.outcome.err!)}`, {
    ...simulationJson(simulation),
    accounts: null,
    innerInstructions: null,
    loadedAddresses: null,
    postBalances: null,
    postTokenBalances: null,
    preBalances: null,
    preTokenBalances: null,
    replacementBlockhash: null,
  });
}

function simulationJson({ outcome, fee, loadedBytes }: Simulation) {
  return {
    err: outcome.err,
    fee,
    loadedAccountsDataSize: loadedBytes,
    logs: outcome.logs,
    returnData: returnDataJson(outcome),
    unitsConsumed: outcome.computeUnits,
  };
}

function returnDataJson({ returnData }: VmOutcome) {
  return returnData === null ? null : { programId: returnData.programId, data: [base64(returnData.data), 'base64'] };
}

function balancesJson(node: LocalNode, { balances }: Simulation) {
  const { accounts, pending } = node.bank;
  return {
    preBalances: balances?.before.lamports.map(exact) ?? null,
    postBalances: balances?.after.lamports.map(exact) ?? null,
    preTokenBalances: balances === null ? null : tokenBalances(balances.before.tokens, accounts, pending.time),
    postTokenBalances: balances === null ? null : tokenBalances(balances.after.tokens, accounts, pending.time),
  };
}

type AccountsConfig = NonNullable<ReturnType<typeof simulateConfig>['accounts']>;

function simulatedAccounts(
  node: LocalNode,
  { accounts: view }: BankView,
  simulation: Simulation,
  wanted: AccountsConfig | undefined,
): unknown {
  if (wanted === undefined) return null;
  const { addresses, encoding = 'base64' } = wanted;
  if (encoding === 'binary' || encoding === 'base58') throw invalidParams('base58 encoding not supported');
  const most = simulation.keys.all.length;
  if (addresses.length > most) throw invalidParams(`Too many accounts provided; max ${most}`);
  if (simulation.outcome.err !== null) return addresses.map(() => null);
  const format = accountFormatOf({ encoding });
  const account = (key: string) => simulation.accounts.get(key) ?? view.get(key);
  return addresses.map((address) => {
    const key = pubkey(address);
    return accountJson(account(key), format, { ...parseContext(node, view, key), account });
  });
}
