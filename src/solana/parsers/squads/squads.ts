import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import { namedParser } from '../named/named-parser.ts';

const source = 'SQUADS';

export const squadsV3 = namedParser({
  name: 'squads-v3',
  program: PROGRAM_ADDRESSES.SQUADS,
  source,
  types: {
    create: 'CREATE_MULTISIG',
    create_transaction: 'CREATE_TRANSACTION',
    activate_transaction: 'ACTIVATE_TRANSACTION',
    add_instruction: 'ADD_INSTRUCTION',
    approve_transaction: 'APPROVE_TRANSACTION',
    reject_transaction: 'REJECT_TRANSACTION',
    cancel_transaction: 'CANCEL_TRANSACTION',
    execute_transaction: 'EXECUTE_TRANSACTION',
    execute_instruction: 'EXECUTE_INSTRUCTION',
    add_member: 'ADD_MEMBER',
    remove_member: 'REMOVE_MEMBER',
    change_threshold: 'CHANGE_THRESHOLD',
  },
});

export const squadsV4 = namedParser({
  name: 'squads-v4',
  program: 'SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf',
  source,
  types: {
    multisig_create: 'CREATE_MULTISIG',
    multisig_create_v2: 'CREATE_MULTISIG',
    multisig_add_member: 'ADD_MEMBER',
    multisig_remove_member: 'REMOVE_MEMBER',
    multisig_change_threshold: 'CHANGE_THRESHOLD',
    multisig_set_time_lock: 'SET_TIME_LOCK',
    multisig_set_config_authority: 'SET_CONFIG_AUTH',
    multisig_set_rent_collector: 'SET_RENT_COLLECTOR',
    multisig_add_spending_limit: 'ADD_SPENDING_LIMIT',
    multisig_remove_spending_limit: 'REMOVE_SPENDING_LIMIT',
    spending_limit_use: 'USE_SPENDING_LIMIT',
    config_transaction_create: 'CREATE_CONFIG_TRANSACTION',
    config_transaction_execute: 'EXECUTE_CONFIG_TRANSACTION',
    vault_transaction_create: 'CREATE_VAULT_TRANSACTION',
    vault_transaction_execute: 'EXECUTE_VAULT_TRANSACTION',
    batch_create: 'CREATE_BATCH',
    batch_add_transaction: 'ADD_BATCH_TRANSACTION',
    batch_execute_transaction: 'EXECUTE_BATCH_TRANSACTION',
    proposal_create: 'CREATE_PROPOSAL',
    proposal_activate: 'ACTIVATE_PROPOSAL',
    proposal_approve: 'APPROVE_PROPOSAL',
    proposal_reject: 'REJECT_PROPOSAL',
    proposal_cancel: 'CANCEL_PROPOSAL',
    config_transaction_accounts_close: 'CLOSE_CONFIG_TRANSACTION_ACCOUNTS',
    vault_transaction_accounts_close: 'CLOSE_VAULT_TRANSACTION_ACCOUNTS',
    vault_batch_transaction_account_close: 'CLOSE_VAULT_BATCH_TRANSACTION_ACCOUNT',
    batch_accounts_close: 'CLOSE_BATCH_ACCOUNTS',
  },
});
