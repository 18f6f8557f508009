import { isDeepStrictEqual } from 'node:util';
import { configuredNow, type Upstream, type UpstreamConfig, type UpstreamList } from '../../../ports/upstream.ts';
import { type MemberOptions, makeMember, type PoolMember } from './member.ts';
import { checkAddresses } from './transport.ts';

interface RosterParts {
  readonly upstreams: UpstreamList;
  readonly member: MemberOptions;
  /** Before the first list is taken. Throws CONFIG_INVALID. */
  readonly check: (upstreams: number) => void;
  readonly broke: (member: PoolMember) => void;
  /** Another list is there. */
  readonly replaced: (joined: readonly PoolMember[], left: readonly PoolMember[], labels: readonly string[]) => void;
}

/** The members of a pool, as they are configured now. */
export function createRoster({ upstreams, member: options, check, broke, replaced }: RosterParts) {
  const { label } = options;
  let taken: readonly UpstreamConfig[] | null = null;
  let members: readonly PoolMember[] = [];
  let byLabel: ReadonlyMap<string, PoolMember> = new Map();
  let hasArchive = false;
  let labels = 0;
  /** Removed ones with requests in flight. */
  const retired = new Set<PoolMember>();

  /** The members now. Those whose entry is the same as before keep their state and their label. Throws CONFIG_INVALID. */
  function current(): readonly PoolMember[] {
    const wanted = configuredNow(upstreams);
    if (wanted === taken) return members;
    checkAddresses(label, wanted);
    const isFirst = taken === null;
    if (isFirst) check(wanted.length);
    taken = wanted;
    const before = new Set(members);
    const joined: PoolMember[] = [];
    members = wanted.map((config, order) => {
      const same = [...before].find((member) => isDeepStrictEqual(member.config, config));
      const member = same ?? newMember(config);
      if (same === undefined) joined.push(member);
      else before.delete(same);
      member.health.order = order;
      return member;
    });
    byLabel = new Map(members.map((member) => [member.upstream.label, member]));
    hasArchive = members.some(({ upstream }) => upstream.archive);
    if (isFirst) return members;
    replaced(joined, [...before], [...byLabel.keys()]);
    for (const member of before) {
      retired.add(member);
      void member.transport.retire().finally(() => retired.delete(member));
    }
    return members;
  }

  /** A label is never used again, so that whoever remembers one never means another upstream. */
  function newMember(config: UpstreamConfig): PoolMember {
    const made: PoolMember = makeMember(config, `${label}-${labels++}`, options, () => broke(made));
    return made;
  }

  return {
    current,
    get hasArchive() {
      return hasArchive;
    },
    memberOf: ({ label: of }: Pick<Upstream, 'label'>): PoolMember | undefined => byLabel.get(of),
    /** Closes the connections of all, also of those that were removed. */
    async close(): Promise<void> {
      await Promise.all([...members, ...retired].map((member) => member.transport.close()));
    },
  };
}
