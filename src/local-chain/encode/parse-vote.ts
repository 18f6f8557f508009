import { base64 } from '../ledger/record.ts';
import type { ByteReader } from './byte-reader.ts';
import { type FieldReader, type Info, shapeParser } from './shape.ts';

const NO_ROOT = 0xffff_ffff_ffff_ffffn;
const AUTHORITIES = ['Voter', 'Withdrawer'];
const COMMISSIONS = ['InflationRewards', 'BlockRevenue'];
const VOTED = 'voteAccount slotHashesSysvar clockSysvar voteAuthority';
const UPDATED = 'voteAccount voteAuthority';
const SEEDED = 'voteAccount clockSysvar authorityBaseKey';

function authorityType(read: ByteReader): unknown {
  const kind = read.u32();
  return AUTHORITIES[kind] ?? { VoterWithBLS: null };
}

function vote(read: ByteReader): Info {
  return {
    slots: read.list(Number(read.u64()), read.amount),
    hash: read.key(),
    timestamp: read.option(read.time),
  };
}

function stateUpdate(read: ByteReader): Info {
  return {
    lockouts: read.list(Number(read.u64()), () => ({ slot: read.amount(), confirmation_count: read.u32() })),
    root: read.option(read.amount),
    hash: read.key(),
    timestamp: read.option(read.time),
  };
}

/** Each slot is the distance to the one before. */
function compactUpdate(read: ByteReader): Info {
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

const towerSync = (read: ByteReader): Info => ({ ...compactUpdate(read), blockId: read.key() });

const seeded: FieldReader = (read) => ({
  authorityType: authorityType(read),
  authorityOwner: read.key(),
  authoritySeed: read.text(),
});

export const parseVote = shapeParser([
  {
    type: 'initialize',
    accounts: 'voteAccount rentSysvar clockSysvar node',
    fields(read) {
      // The first key says who signs as the node, which the accounts say too.
      read.key();
      return { authorizedVoter: read.key(), authorizedWithdrawer: read.key(), commission: read.u8() };
    },
  },
  {
    type: 'authorize',
    accounts: 'voteAccount clockSysvar authority',
    fields: (read) => ({ newAuthority: read.key(), authorityType: authorityType(read) }),
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
    fields: (read) => ({ authorityType: authorityType(read) }),
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
