import type { ChainSetup } from '../../kernel/assembly/parts.ts';
import type { CoreConfig } from '../../kernel/config/core.ts';
import { maskText } from '../../kernel/config/mask.ts';
import type { Clock } from '../../ports/clock.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';
import { probeUpstream, type UpstreamFacts } from './probe-upstream.ts';

const CHECK = 'upstream';
const SLOT_MS = 400;
const DAY_MS = 86_400_000;
/** Block times are whole seconds and the cluster's own estimate. */
const MAX_CLOCK_OFFSET_MS = 30_000;

const SILENT_ADVICE = 'is the address right, does the key still work, does a firewall stand between?';

interface Asked {
  /** `main-0 (https://host/***)`. */
  readonly name: string;
  readonly facts: UpstreamFacts;
}

/** Asks each upstream of each chain, all at once. `known`: genesis hashes of the chains that the store holds. */
export async function upstreamFindings(
  chains: readonly ChainSetup[],
  core: CoreConfig,
  clock: Clock,
  known: ReadonlyMap<string, string>,
): Promise<Finding[]> {
  const groups = await Promise.all(
    chains.map((chain) => chainFindings(chain, core, clock, known.get(chain.id) ?? null)),
  );
  return groups.flat();
}

async function chainFindings(
  { id, upstreams }: ChainSetup,
  core: CoreConfig,
  clock: Clock,
  known: string | null,
): Promise<Finding[]> {
  const results = await Promise.all(
    upstreams.map(async (config, order): Promise<Asked | Finding> => {
      const name = `${id}-${order} (${maskText(config.url)})`;
      const transactionVersion = core.follow.maxSupportedTransactionVersion;
      try {
        return { name, facts: await probeUpstream(name, config, { clock, transactionVersion }) };
      } catch (error) {
        return failedBy(CHECK, error, SILENT_ADVICE);
      }
    }),
  );
  const asked = results.filter((result): result is Asked => 'facts' in result);
  const findings = results.filter((result): result is Finding => !('facts' in result));
  if (asked.length === 0) return findings;
  // With another one in use, one that is down is no reason to fail.
  const down = findings.map(({ check, detail, advice = '' }) => warn(check, detail, advice));
  return [
    ...down,
    ...identityFindings(id, asked, known),
    ...asked.flatMap((one) => oneUpstream(one, asked, core)),
    ...clockFindings(asked),
  ];
}

function identityFindings(chain: string, asked: readonly Asked[], known: string | null): Finding[] {
  const wanted = known ?? asked[0]!.facts.genesisHash;
  return asked
    .filter(({ facts }) => facts.genesisHash !== wanted)
    .map(({ name, facts }) =>
      fail(
        CHECK,
        `${name} serves another chain: genesis ${facts.genesisHash}, ${known === null ? 'the first one' : `the store of ${chain}`} has ${wanted}`,
        known === null ? 'take it out of the list' : 'use the upstream of that chain, or another dataDir or store.url',
        78,
      ),
    );
}

function oneUpstream({ name, facts }: Asked, asked: readonly Asked[], core: CoreConfig): Finding[] {
  const findings: Finding[] = [];
  const behind = Math.max(...asked.map((other) => other.facts.slot)) - facts.slot;
  if (facts.trouble !== null)
    findings.push(warn(CHECK, `${name} says it is not healthy: ${facts.trouble}`, 'wait until it has caught up'));
  if (behind > core.follow.unhealthyLagSlots)
    findings.push(warn(CHECK, `${name} is ${behind} slots behind the best`, 'it is left out until it has caught up'));
  if (facts.blockTrouble !== null)
    findings.push(
      fail(
        CHECK,
        `${name} gives no blocks: ${facts.blockTrouble}`,
        'following needs getBlocks and getBlock: use a node or plan that has them',
      ),
    );
  if (!facts.hasSocket)
    findings.push(
      warn(
        CHECK,
        `${name} takes no websocket`,
        'set websocketUrl; without one slots are only polled and clients cannot subscribe',
      ),
    );
  findings.push(...historyFindings(name, facts, core));
  const line = `${name}: version ${facts.version}, slot ${facts.slot}${behind > 0 ? ` (${behind} behind)` : ''}, ${history(facts)}`;
  return findings.some(({ level }) => level === 'fail') ? findings : [ok(CHECK, line), ...findings];
}

function historyFindings(name: string, { firstSlot }: UpstreamFacts, { follow }: CoreConfig): Finding[] {
  const { startSlot } = follow;
  if (firstSlot === null) return [warn(CHECK, `${name} does not tell its first block`, 'its history is unknown')];
  if (startSlot === 'latest' || startSlot >= firstSlot) return [];
  return [
    warn(
      CHECK,
      `${name} has no blocks before ${firstSlot}, follow.startSlot is ${startSlot}`,
      'add an archive upstream, or start later',
    ),
  ];
}

function history({ slot, firstSlot }: UpstreamFacts): string {
  if (firstSlot === null) return 'history unknown';
  const days = ((slot - firstSlot) * SLOT_MS) / DAY_MS;
  return `history from ${firstSlot} (${days < 1 ? `${(days * 24).toFixed(1)} hours` : `${days.toFixed(1)} days`})`;
}

/** The machine's clock against the newest block of all upstreams. */
function clockFindings(asked: readonly Asked[]): Finding[] {
  const offsets = asked.flatMap(({ facts: { block, slot, askedAtMs } }) =>
    block === null || block.timeMs === null ? [] : [askedAtMs - block.timeMs - (slot - block.slot) * SLOT_MS],
  );
  if (offsets.length === 0) return [];
  const offsetMs = offsets.reduce((best, one) => (Math.abs(one) < Math.abs(best) ? one : best));
  const seconds = Math.round(offsetMs / 1_000);
  if (Math.abs(offsetMs) <= MAX_CLOCK_OFFSET_MS) return [ok('clock', `${seconds} s from the time of the newest block`)];
  return [
    warn(
      'clock',
      `${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the newest block`,
      'timedatectl set-ntp true; receivers refuse signatures of another time (or the upstreams stand still)',
    ),
  ];
}
