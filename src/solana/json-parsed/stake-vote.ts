import { base64, type FieldReader, type Info, type LayoutReader, shapeParser } from './layout.ts';

const STAKE_AUTHORITIES = ['Staker', 'Withdrawer'];

const stakeAuthorityType = (read: LayoutReader) => STAKE_AUTHORITIES[read.u32()];
const lamports: FieldReader = (read) => ({ lamports: read.amount() });

function lockup(read: LayoutReader): Info {
  return { unixTimestamp: read.time(), epoch: read.amount(), custodian: read.key() };
}

/** The changed parts of a lockup. */
function lockupChange(read: LayoutReader): Info {
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
    fields: (read) => ({ newAuthority: read.key(), authorityType: stakeAuthorityType(read) }),
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
      authorityType: stakeAuthorityType(read),
      authoritySeed: read.text(),
      authorityOwner: read.key(),
    }),
  },
  { type: 'initializeChecked', accounts: 'stakeAccount rentSysvar staker withdrawer' },
  {
    type: 'authorizeChecked',
    accounts: 'stakeAccount clockSysvar authority newAuthority ?custodian',
    fields: (read) => ({ authorityType: stakeAuthorityType(read) }),
  },
  {
    type: 'authorizeCheckedWithSeed',
    accounts: 'stakeAccount authorityBase clockSysvar newAuthorized ?custodian',
    fields: (read) => ({
      authorityType: stakeAuthorityType(read),
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

const NO_ROOT = 0xffff_ffff_ffff_ffffn;
const VOTE_AUTHORITIES = ['Voter', 'Withdrawer'];
const COMMISSIONS = ['InflationRewards', 'BlockRevenue'];
const VOTED = 'voteAccount slotHashesSysvar clockSysvar voteAuthority';
const UPDATED = 'voteAccount voteAuthority';
const SEEDED = 'voteAccount clockSysvar authorityBaseKey';

function voteAuthorityType(read: LayoutReader): unknown {
  const kind = read.u32();
  return VOTE_AUTHORITIES[kind] ?? { VoterWithBLS: null };
}

function vote(read: LayoutReader): Info {
  return {
    slots: read.list(Number(read.u64()), read.amount),
    hash: read.key(),
    timestamp: read.option(read.time),
  };
}

function stateUpdate(read: LayoutReader): Info {
  return {
    lockouts: read.list(Number(read.u64()), () => ({ slot: read.amount(), confirmation_count: read.u32() })),
    root: read.option(read.amount),
    hash: read.key(),
    timestamp: read.option(read.time),
  };
}

/** Each slot is stored as the distance to the one before. */
function compactUpdate(read: LayoutReader): Info {
  const rooted = read.u64();
  let slot = rooted === NO_ROOT ? 0n : rooted;
  const lockouts = read.list(Number(read.varint()), () => {
    slot += read.varint();
    return { slot: Number(slot), confirmation_count: read.u8() };
  });
  return {
    lockouts,
    root: rooted === NO_ROOT ? null : Number(rooted),
    hash: read.key(),
    timestamp: read.option(read.time),
  };
}

const towerSync = (read: LayoutReader): Info => ({ ...compactUpdate(read), blockId: read.key() });

const seeded: FieldReader = (read) => ({
  authorityType: voteAuthorityType(read),
  authorityOwner: read.key(),
  authoritySeed: read.text(),
});

export const parseVote = shapeParser([
  {
    type: 'initialize',
    accounts: 'voteAccount rentSysvar clockSysvar node',
    fields(read) {
      // The first key is the signing node, which the accounts contain too.
      read.key();
      return { authorizedVoter: read.key(), authorizedWithdrawer: read.key(), commission: read.u8() };
    },
  },
  {
    type: 'authorize',
    accounts: 'voteAccount clockSysvar authority',
    fields: (read) => ({ newAuthority: read.key(), authorityType: voteAuthorityType(read) }),
  },
  { type: 'vote', accounts: VOTED, fields: (read) => ({ vote: vote(read) }) },
  {
    type: 'withdraw',
    accounts: 'voteAccount destination withdrawAuthority',
    fields: (read) => ({ lamports: read.amount() }),
  },
  { type: 'updateValidatorIdentity', accounts: 'voteAccount newValidatorIdentity withdrawAuthority' },
  {
    type: 'updateCommission',
    accounts: 'voteAccount withdrawAuthority',
    fields: (read) => ({ commission: read.u8() }),
  },
  { type: 'voteSwitch', accounts: VOTED, fields: (read) => ({ vote: vote(read), hash: read.key() }) },
  {
    type: 'authorizeChecked',
    accounts: 'voteAccount clockSysvar authority newAuthority',
    fields: (read) => ({ authorityType: voteAuthorityType(read) }),
  },
  { type: 'updatevotestate', accounts: UPDATED, fields: (read) => ({ voteStateUpdate: stateUpdate(read) }) },
  {
    type: 'updatevotestateswitch',
    accounts: UPDATED,
    fields: (read) => ({ voteStateUpdate: stateUpdate(read), hash: read.key() }),
  },
  {
    type: 'authorizeWithSeed',
    accounts: SEEDED,
    fields: (read, keys) => ({ ...seeded(read, keys), newAuthority: read.key() }),
  },
  { type: 'authorizeCheckedWithSeed', accounts: `${SEEDED} newAuthority`, fields: seeded },
  { type: 'compactupdatevotestate', accounts: UPDATED, fields: (read) => ({ voteStateUpdate: compactUpdate(read) }) },
  {
    type: 'compactupdatevotestateswitch',
    accounts: UPDATED,
    fields: (read) => ({ voteStateUpdate: compactUpdate(read), hash: read.key() }),
  },
  { type: 'towersync', accounts: UPDATED, fields: (read) => ({ towerSync: towerSync(read) }) },
  {
    type: 'towersyncswitch',
    accounts: UPDATED,
    fields: (read) => ({ towerSync: towerSync(read), hash: read.key() }),
  },
  {
    type: 'initializeV2',
    accounts: 'voteAccount node inflationRewardsCollector blockRevenueCollector',
    fields(read) {
      read.key();
      return {
        authorizedVoter: read.key(),
        authorizedVoterBlsPubkey: base64(read.raw(48)),
        authorizedVoterBlsProofOfPossession: base64(read.raw(96)),
        authorizedWithdrawer: read.key(),
        inflationRewardsCommissionBps: read.u16(),
        blockRevenueCommissionBps: read.u16(),
      };
    },
  },
  {
    type: 'updateCommissionCollector',
    accounts: 'voteAccount newCollector withdrawAuthority',
    fields: (read) => ({ commissionKind: COMMISSIONS[read.u32()] }),
  },
  {
    type: 'updateCommissionBps',
    accounts: 'voteAccount withdrawAuthority',
    fields: (read) => ({ commissionBps: read.u16(), commissionKind: COMMISSIONS[read.u32()] }),
  },
  {
    type: 'depositDelegatorRewards',
    accounts: 'voteAccount source',
    fields: (read) => ({ deposit: read.amount() }),
  },
]);
