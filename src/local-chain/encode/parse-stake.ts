import type { ByteReader } from './byte-reader.ts';
import { type FieldReader, type Info, shapeParser } from './shape.ts';

const AUTHORITIES = ['Staker', 'Withdrawer'];

const authorityType = (read: ByteReader) => AUTHORITIES[read.u32()];
const lamports: FieldReader = (read) => ({ lamports: read.amount() });

function lockup(read: ByteReader): Info {
  return { unixTimestamp: read.time(), epoch: read.amount(), custodian: read.key() };
}

/** Parts of a lockup that are to change. */
function lockupChange(read: ByteReader): Info {
  const unixTimestamp = read.option(read.time);
  const epoch = read.option(read.amount);
  return { ...(unixTimestamp === null ? {} : { unixTimestamp }), ...(epoch === null ? {} : { epoch }) };
}

export const parseStake = shapeParser([
  {
    type: 'initialize',
    accounts: 'stakeAccount rentSysvar',
    fields: (read) => ({ authorized: { staker: read.key(), withdrawer: read.key() }, lockup: lockup(read) }),
  },
  {
    type: 'authorize',
    accounts: 'stakeAccount clockSysvar authority ?custodian',
    fields: (read) => ({ newAuthority: read.key(), authorityType: authorityType(read) }),
  },
  {
    type: 'delegate',
    accounts: 'stakeAccount voteAccount clockSysvar stakeHistorySysvar stakeConfigAccount stakeAuthority',
  },
  { type: 'split', accounts: 'stakeAccount newSplitAccount stakeAuthority', fields: lamports },
  {
    type: 'withdraw',
    accounts: 'stakeAccount destination clockSysvar stakeHistorySysvar withdrawAuthority ?custodian',
    fields: lamports,
  },
  { type: 'deactivate', accounts: 'stakeAccount clockSysvar stakeAuthority' },
  {
    type: 'setLockup',
    accounts: 'stakeAccount custodian',
    fields(read) {
      const change = lockupChange(read);
      const custodian = read.optionalKey();
      return { lockup: custodian === null ? change : { ...change, custodian } };
    },
  },
  { type: 'merge', accounts: 'destination source clockSysvar stakeHistorySysvar stakeAuthority' },
  {
    type: 'authorizeWithSeed',
    accounts: 'stakeAccount authorityBase ?clockSysvar ?custodian',
    fields: (read) => ({
      newAuthorized: read.key(),
      authorityType: authorityType(read),
      authoritySeed: read.text(),
      authorityOwner: read.key(),
    }),
  },
  { type: 'initializeChecked', accounts: 'stakeAccount rentSysvar staker withdrawer' },
  {
    type: 'authorizeChecked',
    accounts: 'stakeAccount clockSysvar authority newAuthority ?custodian',
    fields: (read) => ({ authorityType: authorityType(read) }),
  },
  {
    type: 'authorizeCheckedWithSeed',
    accounts: 'stakeAccount authorityBase clockSysvar newAuthorized ?custodian',
    fields: (read) => ({
      authorityType: authorityType(read),
      authoritySeed: read.text(),
      authorityOwner: read.key(),
    }),
  },
  {
    type: 'setLockupChecked',
    accounts: 'stakeAccount custodian',
    fields: (read, keys) => ({
      lockup: { ...lockupChange(read), ...(keys[2] === undefined ? {} : { custodian: keys[2] }) },
    }),
  },
  { type: 'getMinimumDelegation', accounts: '' },
  { type: 'deactivateDelinquent', accounts: 'stakeAccount voteAccount referenceVoteAccount' },
  {
    type: 'redelegate',
    accounts: 'stakeAccount newStakeAccount voteAccount stakeConfigAccount stakeAuthority',
  },
  { type: 'moveStake', accounts: 'source destination stakeAuthority', fields: lamports },
  { type: 'moveLamports', accounts: 'source destination stakeAuthority', fields: lamports },
]);
