/**
 * Interfaces of native programs and of those of the Solana Program Library, which publish none on the chain. One line is one instruction:
 * its first bytes, its name, its arguments, its accounts. An account with `?` may be absent.
 */

import { createHash } from 'node:crypto';
import { lazy } from '../../lib/lazy.ts';
import {
  ACCOUNT_COMPRESSION_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  ED25519_PROGRAM,
  LOADER_V2,
  LOADER_V3,
  LOADER_V4,
  LOOKUP_TABLE_PROGRAM,
  MEMO_PROGRAMS,
  MPL_NOOP_PROGRAM,
  NAME_PROGRAM,
  NOOP_PROGRAM,
  SECP256K1_PROGRAM,
  SECP256R1_PROGRAM,
  STAKE_POOL_PROGRAM,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../programs.ts';
import { type CallShape, createInterface, type ProgramError, type ProgramInterface } from './interface.ts';
import {
  bool,
  type DataReader,
  key,
  type ListCount,
  list,
  misfit,
  number,
  option,
  prefixed,
  type ReadValue,
  restBytes,
  restText,
  struct,
  variants,
  zeroableOption,
} from './read-values.ts';

interface NativeProgram {
  readonly name: string;
  readonly addresses: readonly string[];
  /** What the first bytes of an instruction are: numbers of this type, then of one byte; or the hash of a name. */
  readonly tag: 'u8' | 'u32' | 'hash' | 'none';
  /** Namespace of the hash. */
  readonly lines: string;
  /** In the order of their codes, one per line: its name and what it means. */
  readonly errors?: string;
  /** The code of the first one; default 0. */
  readonly firstError?: number;
}

const MULTISIG = '<uninitialized|initialized|frozen>';

/** Instructions that both token programs have. */
const TOKEN_LINES = `
0 initialize_mint (decimals:u8, mint_authority:key, freeze_authority:?key) mint rent
1 initialize_account () account mint owner rent
2 initialize_multisig (m:u8) multisig rent
3 transfer (amount:u64) source destination authority
4 approve (amount:u64) source delegate owner
5 revoke () source owner
6 set_authority (authority_type:<mint_tokens|freeze_account|account_owner|close_account|transfer_fee_config|withheld_withdraw|close_mint|interest_rate|permanent_delegate|confidential_transfer_mint|transfer_hook_program_id|confidential_transfer_fee_config|metadata_pointer|group_pointer|group_member_pointer|scaled_ui_amount|pause|permissioned_burn>, new_authority:?key) owned owner
7 mint_to (amount:u64) mint token mint_authority
8 burn (amount:u64) account mint authority
9 close_account () account destination owner
10 freeze_account () account mint owner
11 thaw_account () account mint owner
12 transfer_checked (amount:u64, decimals:u8) source mint destination authority
13 approve_checked (amount:u64, decimals:u8) source mint delegate owner
14 mint_to_checked (amount:u64, decimals:u8) mint token mint_authority
15 burn_checked (amount:u64, decimals:u8) account mint authority
16 initialize_account2 (owner:key) account mint rent
17 sync_native () account rent
18 initialize_account3 (owner:key) account mint
19 initialize_multisig2 (m:u8) multisig
20 initialize_mint2 (decimals:u8, mint_authority:key, freeze_authority:?key) mint
21 get_account_data_size (extensions:[u16]*) mint
22 initialize_immutable_owner () account
23 amount_to_ui_amount (amount:u64) mint
24 ui_amount_to_amount (ui_amount:text) mint
38 withdraw_excess_lamports () source destination authority
45 unwrap_lamports (amount:?u64) source destination authority
255 batch (data:[{number_of_accounts:u8, instruction_data:[u8]8}]*)
`;

const TOKEN_2022_LINES = `${TOKEN_LINES}
25 initialize_mint_close_authority (close_authority:?key) mint
26.0 initialize_transfer_fee_config (transfer_fee_config_authority:?key, withdraw_withheld_authority:?key, transfer_fee_basis_points:u16, maximum_fee:u64) mint
26.1 transfer_checked_with_fee (amount:u64, decimals:u8, fee:u64) source mint destination authority
26.2 withdraw_withheld_tokens_from_mint () mint fee_receiver withdraw_withheld_authority
26.3 withdraw_withheld_tokens_from_accounts (num_token_accounts:u8) mint fee_receiver withdraw_withheld_authority
26.4 harvest_withheld_tokens_to_mint () mint
26.5 set_transfer_fee (transfer_fee_basis_points:u16, maximum_fee:u64) mint transfer_fee_config_authority
28.0 initialize_default_account_state (state:${MULTISIG}) mint
28.1 update_default_account_state (state:${MULTISIG}) mint freeze_authority
29 reallocate (new_extension_types:[u16]*) token payer system_program owner
30.0 enable_memo_transfers () token owner
30.1 disable_memo_transfers () token owner
31 create_native_mint () payer native_mint system_program
32 initialize_non_transferable_mint () mint
33.0 initialize_interest_bearing_mint (rate_authority:~key, rate:i16) mint
33.1 update_rate_interest_bearing_mint (rate:i16) mint rate_authority
34.0 enable_cpi_guard () token owner
34.1 disable_cpi_guard () token owner
35 initialize_permanent_delegate (delegate:key) mint
36.0 initialize_transfer_hook (authority:~key, program_id:~key) mint
36.1 update_transfer_hook (program_id:~key) mint authority
39.0 initialize_metadata_pointer (authority:~key, metadata_address:~key) mint
39.1 update_metadata_pointer (metadata_address:~key) mint metadata_pointer_authority
40.0 initialize_group_pointer (authority:~key, group_address:~key) mint
40.1 update_group_pointer (group_address:~key) mint group_pointer_authority
41.0 initialize_group_member_pointer (authority:~key, member_address:~key) mint
41.1 update_group_member_pointer (member_address:~key) mint group_member_pointer_authority
43.0 initialize_scaled_ui_amount_mint (authority:~key, multiplier:f64) mint
43.1 update_multiplier_scaled_ui_mint (multiplier:f64, effective_timestamp:i64) mint authority
44.0 initialize_pausable_config (authority:~key) mint
44.1 pause () mint authority
44.2 resume () mint authority
46.0 initialize_permissioned_burn (authority:key) mint
46.1 permissioned_burn (amount:u64) account mint permissioned_burn_authority authority
46.2 permissioned_burn_checked (amount:u64, decimals:u8) account mint permissioned_burn_authority authority
#spl_token_metadata_interface:initialize_account initialize_token_metadata (name:string, symbol:string, uri:string) metadata update_authority mint mint_authority
#spl_token_metadata_interface:updating_field update_token_metadata_field (field:<name|symbol|uri|key{0:string}>, value:string) metadata update_authority
#spl_token_metadata_interface:remove_key_ix remove_token_metadata_key (idempotent:bool, key:string) metadata update_authority
#spl_token_metadata_interface:update_the_authority update_token_metadata_update_authority (new_update_authority:~key) metadata update_authority
#spl_token_metadata_interface:emitter emit_token_metadata (start:?u64, end:?u64) metadata
#spl_token_group_interface:initialize_token_group initialize_token_group (update_authority:~key, max_size:u64) group mint mint_authority
#spl_token_group_interface:update_group_max_size update_token_group_max_size (max_size:u64) group update_authority
#spl_token_group_interface:update_authority update_token_group_update_authority (new_update_authority:~key) group update_authority
#spl_token_group_interface:initialize_member initialize_token_group_member () member member_mint member_mint_authority group group_update_authority
`;

/** Errors that both token programs have. */
const TOKEN_ERRORS = `
not_rent_exempt the account has fewer lamports than rent exemption needs
insufficient_funds insufficient funds: the account holds fewer tokens than that
invalid_mint the account is no mint
mint_mismatch the account is of another mint
owner_mismatch this is not the owner of the account, nor its delegate
fixed_supply the supply is fixed: the mint has no authority
already_in_use the account is already initialized
invalid_number_of_provided_signers a multisig cannot have so many signers
invalid_number_of_required_signers a multisig cannot demand so many signers
uninitialized_state the account is not initialized
native_not_supported wrapped SOL does not support this
non_native_has_balance an account that still holds tokens cannot be closed
invalid_instruction the program does not know this instruction
invalid_state the state of the account does not allow this
overflow a number became too large
authority_type_not_supported the account has no authority of this type
mint_cannot_freeze the mint cannot freeze accounts
account_frozen the account is frozen
mint_decimals_mismatch the mint has other decimals
non_native_not_supported only wrapped SOL supports this
`;

const TOKEN_2022_ERRORS = `${TOKEN_ERRORS}extension_type_mismatch the account has another extension than this
extension_base_mismatch the extension is not for this kind of account
extension_already_initialized the extension is already initialized
confidential_transfer_account_has_balance the account still has a confidential balance
confidential_transfer_account_not_approved the account is not approved for confidential transfers
confidential_transfer_deposits_and_transfers_disabled the account takes no confidential deposits or transfers
confidential_transfer_el_gamal_pubkey_mismatch the ElGamal key is another one
confidential_transfer_balance_mismatch the confidential balance is another one
mint_has_supply a mint with a supply cannot be closed
no_authority_exists the authority that this needs is not set
transfer_fee_exceeds_maximum the transfer fee is above 10,000 basis points
mint_required_for_transfer this token needs transfer_checked, which names the mint
fee_mismatch the fee is not the one that the program computes
fee_parameters_mismatch the fee parameters of the proof are not those of the mint
immutable_owner the owner of the account cannot change
account_has_withheld_transfer_fees the account still holds withheld fees; harvest them to the mint first
no_memo the receiver demands a memo before the transfer
non_transferable this token cannot be transferred
non_transferable_needs_immutable_ownership a token that cannot be transferred needs an account with an immutable owner
maximum_pending_balance_credit_counter_exceeded the account has too many confidential credits that wait
maximum_deposit_amount_exceeded the confidential deposit is too large
cpi_guard_settings_locked another program cannot change the CPI guard
cpi_guard_transfer_blocked the CPI guard stopped a transfer by another program
cpi_guard_burn_blocked the CPI guard stopped a burn by another program
cpi_guard_close_account_blocked the CPI guard stopped a close by another program
cpi_guard_approve_blocked the CPI guard stopped an approval by another program
cpi_guard_set_authority_blocked the CPI guard stopped a change of the authority by another program
cpi_guard_owner_change_blocked the CPI guard stopped a change of the owner
extension_not_found the account does not have this extension
non_confidential_transfers_disabled the account takes confidential transfers only
confidential_transfer_fee_account_has_withheld_fee the account still holds withheld confidential fees
invalid_extension_combination these extensions do not go together
invalid_length_for_alloc the account does not have the length that its extensions need
account_decryption the confidential balance cannot be decrypted
proof_generation the proof cannot be made
invalid_proof_instruction_offset the instruction of the proof is not where it should be
harvest_to_mint_disabled fees cannot be harvested to this mint
split_proof_context_state_accounts_not_supported a proof cannot be split over accounts here
not_enough_proof_context_state_accounts accounts of the proof are missing
malformed_ciphertext the ciphertext is malformed
ciphertext_arithmetic_failed the ciphertexts cannot be added
pedersen_commitment_mismatch the Pedersen commitments differ
range_proof_length_mismatch the range proof has the wrong length
illegal_bit_length the range proof has an illegal bit length
fee_calculation the fee cannot be computed
illegal_mint_burn_conversion this mint is minted and burned confidentially only
invalid_scale the multiplier is not valid
mint_paused the mint is paused
pending_balance_non_zero the account still has a pending balance
`;

/** Errors of the programs that verify signatures. */
const SIGNATURE_ERRORS = `
invalid_public_key the public key is not valid
invalid_recovery_id the recovery id is not valid
invalid_signature the signature is not valid
invalid_data_offsets an offset points outside the data
invalid_instruction_data_size the data has the wrong size
`;

const LOCKUP = '{unix_timestamp:i64, epoch:u64, custodian:key}';
const STAKE_AUTHORITY = '<staker|withdrawer>32';
const VOTE_AUTHORITY = '<voter|withdrawer>32';
const VOTES = '{slots:[u64]64, hash:key, timestamp:?i64}';
const VOTE_STATE = '{lockouts:[{slot:u64, confirmation_count:u32}]64, root:?u64, hash:key, timestamp:?i64}';
/** The distance of each slot to the one before it. */
const COMPACT = 'root:u64, lockout_offsets:[{offset:varint, confirmation_count:u8}]short, hash:key, timestamp:?i64';
const SIGNATURE_OFFSETS =
  '{signature_offset:u16, signature_instruction_index:u16, public_key_offset:u16, public_key_instruction_index:u16, message_data_offset:u16, message_data_size:u16, message_instruction_index:u16}';

const PROGRAMS: readonly NativeProgram[] = [
  {
    name: 'system',
    addresses: [SYSTEM_PROGRAM],
    tag: 'u32',
    lines: `
0 create_account (lamports:u64, space:u64, program_address:key) payer new_account
1 assign (program_address:key) account
2 transfer (amount:u64) source destination
3 create_account_with_seed (base:key, seed:string64, amount:u64, space:u64, program_address:key) payer new_account base_account
4 advance_nonce_account () nonce_account recent_blockhashes_sysvar nonce_authority
5 withdraw_nonce_account (withdraw_amount:u64) nonce_account recipient_account recent_blockhashes_sysvar rent_sysvar nonce_authority
6 initialize_nonce_account (nonce_authority:key) nonce_account recent_blockhashes_sysvar rent_sysvar
7 authorize_nonce_account (new_nonce_authority:key) nonce_account nonce_authority
8 allocate (space:u64) new_account
9 allocate_with_seed (base:key, seed:string64, space:u64, program_address:key) new_account base_account
10 assign_with_seed (base:key, seed:string64, program_address:key) account base_account
11 transfer_with_seed (amount:u64, from_seed:string64, from_owner:key) source base_account destination
12 upgrade_nonce_account () nonce_account
`,
    errors: `
account_already_in_use an account with this address already exists
result_with_negative_lamports insufficient lamports: the account has less SOL than that
invalid_program_id the account cannot be assigned to this program
invalid_account_data_length an account cannot have data of this length
max_seed_length_exceeded the seed is too long
address_with_seed_mismatch the address is not the one that base, seed and program give
nonce_no_recent_blockhashes there is no recent blockhash for the nonce
nonce_blockhash_not_expired the nonce is still a recent blockhash and cannot be advanced yet
nonce_unexpected_blockhash_value the account stores another nonce
`,
  },
  {
    name: 'token',
    addresses: [TOKEN_PROGRAM],
    tag: 'u8',
    lines: TOKEN_LINES,
    errors: TOKEN_ERRORS,
  },
  {
    name: 'token_2022',
    addresses: [TOKEN_2022_PROGRAM],
    tag: 'u8',
    lines: TOKEN_2022_LINES,
    errors: TOKEN_2022_ERRORS,
  },
  {
    name: 'associated_token',
    addresses: [ASSOCIATED_TOKEN_PROGRAM],
    tag: 'u8',
    lines: `
- create_associated_token () payer ata owner mint system_program token_program rent
0 create_associated_token () payer ata owner mint system_program token_program rent
1 create_associated_token_idempotent () payer ata owner mint system_program token_program
2 recover_nested_associated_token () nested_associated_account_address nested_token_mint_address destination_associated_account_address owner_associated_account_address owner_token_mint_address wallet_address token_program
`,
    errors: 'invalid_owner the owner of the account is not the one of its address',
  },
  {
    name: 'memo',
    addresses: MEMO_PROGRAMS,
    tag: 'none',
    lines: '- add_memo (memo:text)',
  },
  {
    name: 'compute_budget',
    addresses: [COMPUTE_BUDGET_PROGRAM],
    tag: 'u8',
    lines: `
0 request_units (units:u32, additional_fee:u32)
1 request_heap_frame (bytes:u32)
2 set_compute_unit_limit (units:u32)
3 set_compute_unit_price (micro_lamports:u64)
4 set_loaded_accounts_data_size_limit (account_data_size_limit:u32)
`,
  },
  {
    name: 'stake',
    addresses: [STAKE_PROGRAM],
    tag: 'u32',
    lines: `
0 initialize (authorized:{staker:key, withdrawer:key}, lockup:${LOCKUP}) stake rent_sysvar
1 authorize (new_authority:key, authority_type:${STAKE_AUTHORITY}) stake clock_sysvar authority lockup_authority
2 delegate_stake () stake vote clock_sysvar stake_history unused stake_authority
3 split (lamports:u64) stake split_stake stake_authority
4 withdraw (lamports:u64) stake recipient clock_sysvar stake_history withdraw_authority lockup_authority
5 deactivate () stake clock_sysvar stake_authority
6 set_lockup (unix_timestamp:?i64, epoch:?u64, custodian:?key) stake authority
7 merge () destination_stake source_stake clock_sysvar stake_history stake_authority
8 authorize_with_seed (new_authority:key, authority_type:${STAKE_AUTHORITY}, authority_seed:string64, authority_owner:key) stake base clock_sysvar lockup_authority
9 initialize_checked () stake rent_sysvar stake_authority withdraw_authority
10 authorize_checked (authority_type:${STAKE_AUTHORITY}) stake clock_sysvar authority new_authority lockup_authority
11 authorize_checked_with_seed (authority_type:${STAKE_AUTHORITY}, authority_seed:string64, authority_owner:key) stake base clock_sysvar new_authority lockup_authority
12 set_lockup_checked (unix_timestamp:?i64, epoch:?u64) stake authority new_authority
13 get_minimum_delegation ()
14 deactivate_delinquent () stake delinquent_vote reference_vote
15 redelegate ()
16 move_stake (lamports:u64) source_stake destination_stake stake_authority
17 move_lamports (lamports:u64) source_stake destination_stake stake_authority
`,
    errors: `
no_credits_to_redeem there are no rewards to collect
lockup_in_force the stake is still locked
already_deactivated the stake is already deactivated
too_soon_to_redelegate stake can be delegated anew once per epoch
insufficient_stake the account has less stake than that
merge_transient_stake stake that is activating or deactivating cannot be merged
merge_mismatch the accounts have different authorities, lockups or states and cannot be merged
custodian_missing the custodian of the lockup is missing
custodian_signature_missing the custodian of the lockup did not sign
insufficient_reference_votes the reference validator did not vote enough
vote_address_mismatch the stake is not delegated to this vote account
minimum_delinquent_epochs_for_deactivation_not_met the validator has not been delinquent for long enough
insufficient_delegation the stake is below the minimum of a delegation
redelegate_transient_or_inactive_stake stake that is not fully active cannot be delegated anew
redelegate_to_same_vote_account the stake is already delegated to this vote account
redelegated_stake_must_fully_activate_before_deactivation_is_permitted stake that was delegated anew must be fully active before it is deactivated
epoch_rewards_active stake cannot be changed while the rewards of the epoch are paid
`,
  },
  {
    name: 'vote',
    addresses: [VOTE_PROGRAM],
    tag: 'u32',
    lines: `
0 initialize_account (node_pubkey:key, authorized_voter:key, authorized_withdrawer:key, commission:u8) vote rent_sysvar clock_sysvar node
1 authorize (new_authority:key, authority_type:${VOTE_AUTHORITY}) vote clock_sysvar authority
2 vote (vote:${VOTES}) vote slot_hashes_sysvar clock_sysvar vote_authority
3 withdraw (lamports:u64) vote recipient withdraw_authority
4 update_validator_identity () vote node withdraw_authority
5 update_commission (commission:u8) vote withdraw_authority
6 vote_switch (vote:${VOTES}, hash:key) vote slot_hashes_sysvar clock_sysvar vote_authority
7 authorize_checked (authority_type:${VOTE_AUTHORITY}) vote clock_sysvar authority new_authority
8 update_vote_state (vote_state_update:${VOTE_STATE}) vote vote_authority
9 update_vote_state_switch (vote_state_update:${VOTE_STATE}, hash:key) vote vote_authority
10 authorize_with_seed (authority_type:${VOTE_AUTHORITY}, authority_owner:key, authority_seed:string64, new_authority:key) vote clock_sysvar base
11 authorize_checked_with_seed (authority_type:${VOTE_AUTHORITY}, authority_owner:key, authority_seed:string64) vote clock_sysvar base new_authority
12 compact_update_vote_state (vote_state_update:{${COMPACT}}) vote vote_authority
13 compact_update_vote_state_switch (vote_state_update:{${COMPACT}}, hash:key) vote vote_authority
14 tower_sync (tower_sync:{${COMPACT}, block_id:key}) vote vote_authority
15 tower_sync_switch (tower_sync:{${COMPACT}, block_id:key}, hash:key) vote vote_authority
`,
    errors: `
vote_too_old the vote was already recorded, or its slots are no longer in the history
slots_mismatch the slots of the vote are not those of the bank
slot_hash_mismatch the hash of the vote is not the one of its slot
empty_slots the vote names no slots
timestamp_too_old the time of the vote is before an earlier one
too_soon_to_reauthorize the authority can change once per epoch
lockout_conflict the new state contradicts an old lockout
new_vote_state_lockout_mismatch the new lockout is not the one that follows
slots_not_ordered the slots are out of order
confirmations_not_ordered the confirmations are out of order
zero_confirmations a slot has no confirmation
confirmation_too_large a slot has too many confirmations
root_roll_back the root would move back
confirmation_roll_back the confirmations of a slot would decrease
slot_smaller_than_root a slot is below the root
too_many_votes the vote has too many slots
votes_too_old_all_filtered every slot of the vote is older than the history
root_on_different_fork the root is on another fork
active_vote_account_close a vote account that still votes cannot be closed
commission_update_too_late the commission can change in the first half of an epoch only
`,
  },
  {
    name: 'address_lookup_table',
    addresses: [LOOKUP_TABLE_PROGRAM],
    tag: 'u32',
    lines: `
0 create_lookup_table (recent_slot:u64, bump:u8) address authority payer system_program
1 freeze_lookup_table () address authority
2 extend_lookup_table (addresses:[key]64) address authority payer system_program
3 deactivate_lookup_table () address authority
4 close_lookup_table () address authority recipient
`,
  },
  {
    name: 'loader_v2',
    addresses: [LOADER_V2],
    tag: 'u32',
    lines: `
0 write (offset:u32, bytes:[u8]64) account
1 finalize () account rent_sysvar
`,
  },
  {
    name: 'loader_v3',
    addresses: [LOADER_V3],
    tag: 'u32',
    lines: `
0 initialize_buffer () source_account buffer_authority
1 write (offset:u32, bytes:[u8]64) buffer_account buffer_authority
2 deploy_with_max_data_len (max_data_len:u64) payer_account program_data_account program_account buffer_account rent_sysvar clock_sysvar system_program authority
3 upgrade () program_data_account program_account buffer_account spill_account rent_sysvar clock_sysvar authority
4 set_authority () buffer_or_program_data_account current_authority new_authority
5 close () buffer_or_program_data_account destination_account authority program_account
6 extend_program (additional_bytes:u32) program_data_account program_account system_program payer
7 set_authority_checked () buffer_or_program_data_account current_authority new_authority
8 migrate () program_data_account program_account authority
9 extend_program_checked (additional_bytes:u32) program_data_account program_account authority system_program payer
`,
  },
  {
    name: 'loader_v4',
    addresses: [LOADER_V4],
    tag: 'u32',
    lines: `
0 write (offset:u32, bytes:[u8]64) program authority
1 copy (destination_offset:u32, source_offset:u32, length:u32) program authority source_program
2 set_program_length (new_size:u32) program authority destination
3 deploy () program authority source_program
4 retract () program authority
5 transfer_authority () program current_authority new_authority
6 finalize () program current_authority next_version
`,
  },
  {
    name: 'ed25519',
    addresses: [ED25519_PROGRAM],
    tag: 'none',
    lines: `- verify (count:u8, padding:u8, offsets:[${SIGNATURE_OFFSETS}]0)`,
    errors: SIGNATURE_ERRORS,
  },
  {
    name: 'secp256r1',
    addresses: [SECP256R1_PROGRAM],
    tag: 'none',
    lines: `- verify (count:u8, padding:u8, offsets:[${SIGNATURE_OFFSETS}]0)`,
    errors: SIGNATURE_ERRORS,
  },
  {
    name: 'secp256k1',
    addresses: [SECP256K1_PROGRAM],
    tag: 'none',
    lines:
      '- verify (offsets:[{signature_offset:u16, signature_instruction_index:u8, eth_address_offset:u16, eth_address_instruction_index:u8, message_data_offset:u16, message_data_size:u16, message_instruction_index:u8}]8)',
    errors: SIGNATURE_ERRORS,
  },
  {
    name: 'name_service',
    addresses: [NAME_PROGRAM],
    tag: 'u8',
    lines: `
0 create (hashed_name:[u8], lamports:u64, space:u32) system_program payer name_account name_owner name_class name_parent name_parent_owner
1 update (offset:u32, data:[u8]) name_account name_update_signer name_parent
2 transfer (new_owner:key) name_account name_owner name_class
3 delete () name_account name_owner refund_target
4 realloc (space:u32) system_program payer_account name_account name_owner
`,
  },
  {
    name: 'noop',
    addresses: [NOOP_PROGRAM, MPL_NOOP_PROGRAM],
    tag: 'none',
    lines: '- noop_instruction (data:bytes)',
  },
  {
    name: 'account_compression',
    addresses: [ACCOUNT_COMPRESSION_PROGRAM],
    tag: 'hash',
    lines: `
init_empty_merkle_tree (max_depth:u32, max_buffer_size:u32) merkle_tree authority noop
replace_leaf (root:[u8;32], previous_leaf:[u8;32], new_leaf:[u8;32], index:u32) merkle_tree authority noop
transfer_authority (new_authority:key) merkle_tree authority
verify_leaf (root:[u8;32], leaf:[u8;32], index:u32) merkle_tree
append (leaf:[u8;32]) merkle_tree authority noop
insert_or_append (root:[u8;32], leaf:[u8;32], index:u32) merkle_tree authority noop
close_empty_tree () merkle_tree authority recipient
`,
    firstError: 6_000,
    errors: `
incorrect_leaf_length a leaf has 32 bytes
concurrent_merkle_tree_error the change does not fit the tree: the proof is wrong or too old, or the leaf is another one
zero_copy_error the account cannot be read as a tree
concurrent_merkle_tree_constants_error no tree has this depth and buffer size
canopy_length_mismatch the canopy has the wrong length
incorrect_authority this is not the authority of the tree
incorrect_account_owner the account is of another program
incorrect_account_type the account is no tree
leaf_index_out_of_bounds the tree has no such leaf index
`,
  },
  {
    name: 'stake_pool',
    addresses: [STAKE_POOL_PROGRAM],
    tag: 'u8',
    lines: `
1 add_validator_to_pool (seed:u32) stake_pool staker reserve_stake withdraw_authority validator_list stake vote rent_sysvar clock_sysvar stake_history stake_config system_program stake_program
2 remove_validator_from_pool () stake_pool staker withdraw_authority validator_list stake transient_stake clock_sysvar stake_program
9 deposit_stake () stake_pool validator_list stake_deposit_authority withdraw_authority deposit_stake validator_stake reserve_stake pool_tokens_to manager_fee_account referrer_pool_tokens_account pool_mint clock_sysvar stake_history token_program stake_program
10 withdraw_stake (pool_tokens_in:u64) stake_pool validator_list withdraw_authority stake_to_split stake_to_receive user_stake_authority user_transfer_authority user_pool_token_account manager_fee_account pool_mint clock_sysvar token_program stake_program
14 deposit_sol (lamports:u64) stake_pool withdraw_authority reserve_stake lamports_from pool_tokens_to manager_fee_account referrer_pool_tokens_account pool_mint system_program token_program sol_deposit_authority
16 withdraw_sol (pool_tokens_in:u64) stake_pool withdraw_authority user_transfer_authority pool_tokens_from reserve_stake lamports_to manager_fee_account pool_mint clock_sysvar stake_history stake_program token_program sol_withdraw_authority
`,
  },
];

/** Programs that are known without an interface on the chain, by address. */
export const nativeInterfaces: () => ReadonlyMap<string, ProgramInterface> = lazy(() => {
  const known = new Map<string, ProgramInterface>();
  for (const program of PROGRAMS)
    for (const address of program.addresses) known.set(address, compileProgram(program, address));
  return known;
});

function compileProgram(
  { name, tag, lines, errors = '', firstError = 0 }: NativeProgram,
  address: string,
): ProgramInterface {
  return createInterface({
    name,
    address,
    errors: () => errorTable(errors, firstError),
    events: [],
    calls: lines
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => callOf(line, tag)),
  });
}

function errorTable(lines: string, first: number): ReadonlyMap<number, ProgramError> {
  const errors = lines.split('\n').filter((line) => line !== '');
  return new Map(
    errors.map((line, at) => {
      const end = line.indexOf(' ');
      return [first + at, { name: line.slice(0, end), msg: line.slice(end + 1) }] as const;
    }),
  );
}

function callOf(line: string, tag: NativeProgram['tag']): CallShape {
  const open = line.indexOf('(');
  const close = line.lastIndexOf(')');
  const words = line.slice(0, open).trim().split(' ');
  const name = words.at(-1)!;
  const bytes = tag === 'hash' ? hashOf(`global:${name}`) : tagBytes(words[0]!, tag);
  const accounts = line
    .slice(close + 1)
    .split(' ')
    .filter(Boolean);
  return {
    name,
    omitsAccounts: false,
    conditions: bytes === null ? [] : [{ offset: 0, bytes }],
    // Only an instruction without data has no tag.
    size: bytes === null && tag !== 'none' ? 0 : null,
    argsAt: bytes?.length ?? 0,
    args: () => typeParser(`{${line.slice(open + 1, close)}}`)(),
    accounts: () => accounts.map((one) => ({ name: one.replace('?', ''), isOptional: one.endsWith('?') })),
  };
}

const hashOf = (text: string): Uint8Array => createHash('sha256').update(text).digest().subarray(0, 8);

function tagBytes(text: string, tag: NativeProgram['tag']): Uint8Array | null {
  if (text === '-') return null;
  if (text.startsWith('#')) return hashOf(text.slice(1));
  const [first = 0, ...rest] = text.split('.').map(Number);
  return Uint8Array.of(...(tag === 'u32' ? [first, 0, 0, 0] : [first]), ...rest);
}

const u8 = number('u8')!;
const u32 = number('u32')!;
const u64 = number('u64')!;

const SIMPLE: Readonly<Record<string, ReadValue>> = {
  bool: bool(),
  key,
  text: restText('utf8'),
  bytes: restBytes,
  varint,
  string: prefixed(u32, restText('utf8')),
  string64: prefixed(u64, restText('utf8')),
};

/** Seven bits per byte, low bits first, as text. */
function varint(from: DataReader): string {
  let value = 0n;
  for (let shift = 0n; shift < 64n; shift += 7n) {
    const byte = u8(from) as number;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return String(value);
  }
  return misfit();
}

/** What counts the items of a list; `0`: the first byte of the data. */
const COUNTS: Readonly<Record<string, ListCount>> = {
  '': u32,
  '8': u8,
  '64': u64,
  short: number('shortU16')!,
  '*': 'rest',
  '0': (from: DataReader) => from.bytes[0] ?? misfit(),
};

/** The reader that a text of this file means: `u64`, `?key`, `~key` (none: zeros), `[T]`, `[T;3]`, `{a:T, b:T}`, `<a|b{x:T}>32`. */
function typeParser(text: string): () => ReadValue {
  let at = 0;
  const eat = (expected: RegExp): string | null => {
    const found = expected.exec(text.slice(at))?.[0] ?? null;
    if (found !== null) at += found.length;
    return found;
  };
  const demand = (expected: RegExp): string => {
    const found = eat(expected);
    if (found === null) throw new TypeError(`native interface: ${text.slice(at)}`);
    return found;
  };
  function type(): ReadValue {
    if (eat(/^\?/) !== null) return option(u8, type());
    if (eat(/^~/) !== null) return zeroableOption(type(), null);
    if (eat(/^\[/) !== null) return listType();
    if (text[at] === '{') return fields();
    if (eat(/^</) !== null) return choice();
    const name = demand(/^\w+/);
    const read = SIMPLE[name] ?? number(name);
    if (read === undefined) throw new TypeError(`native interface: ${name}`);
    return read;
  }
  function listType(): ReadValue {
    const item = type();
    const fixed = eat(/^;\d+/);
    demand(/^\]/);
    return list(fixed === null ? COUNTS[eat(/^(8|64|0|short|\*)/) ?? '']! : Number(fixed.slice(1)), item);
  }
  function fields(): ReadValue {
    demand(/^\{/);
    const found: { name: string; read: ReadValue }[] = [];
    while (eat(/^\}/) === null) {
      const name = demand(/^\w+:/).slice(0, -1);
      found.push({ name, read: type() });
      eat(/^,\s*/);
    }
    return struct(found);
  }
  function choice(): ReadValue {
    const found: { name: string; body: ReadValue | null }[] = [];
    while (eat(/^>/) === null) {
      found.push({ name: demand(/^\w+/), body: text[at] === '{' ? fields() : null });
      eat(/^\|/);
    }
    return variants(eat(/^32/) === null ? u8 : u32, (tag) => found[tag]);
  }
  return type;
}
