import { createSystemClock } from '../../adapters/clock.ts';
import type { Assembly } from '../../daemon/assemble.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import { configuredNow } from '../../ports/upstream.ts';
import type { CliIo, CommandValues, RunCommand } from '../command.ts';
import { chainSetups } from '../compose.ts';
import { exitCodeOf, type Finding, fail, ok, warn } from '../doctor/finding.ts';
import {
  certificateFindings,
  configFileFinding,
  dataFolderFindings,
  nodeFinding,
  openFilesFinding,
  portFindings,
  serviceFindings,
} from '../doctor/host.ts';
import { checkStore, daemonFindings } from '../doctor/store.ts';
import { upstreamFindings } from '../doctor/upstreams.ts';
import { chooseUpstream, loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFiles } from '../running-daemon.ts';
import { findStoreDir } from '../store-dir.ts';

export const run: RunCommand = async (values, io) => {
  const findings = [nodeFinding(process.version), ...(await examine(values, io)), ...(await serviceFindings())];
  const exitCode = exitCodeOf(findings);
  if (values['json'] === true) io.out(JSON.stringify({ ok: exitCode === 0, exitCode, findings }, null, 2));
  else for (const line of render(findings)) io.out(line);
  return exitCode;
};

async function examine(values: CommandValues, io: CliIo): Promise<Finding[]> {
  let assembly: Assembly;
  try {
    assembly = await assembleOffline(await loadCliConfig(values, io, { needs: 'upstream' }));
  } catch (error) {
    return configFindings(error);
  }
  const { config } = assembly;
  const dataDir = config.core.dataDir;
  const running = findRunFiles(dataDir);
  const dir = findStoreDir(config, dataDir);
  const isLocal = chooseUpstream(config) === 'local';
  const store = await checkStore(assembly, dir, running.length > 0);
  const clock = createSystemClock();
  const chains = chainSetups(config.core, null).filter(({ upstreams }) => configuredNow(upstreams).length > 0);
  return [
    configFileFinding(config),
    ...config.warnings.map((text) =>
      warn('configuration', text, 'old keys still work; the new key is in units of time'),
    ),
    ...dataFolderFindings({ path: dataDir, uid: process.getuid?.() }),
    ...store.findings,
    ...(isLocal ? [ok('upstream', 'none configured: a start runs the local chain')] : []),
    ...(await upstreamFindings(chains, config.core, clock, store.chains)),
    ...certificateFindings(config.core, clock.now()),
    openFilesFinding(config.core.http.maxConnections, running[0]?.pid ?? null),
    ...(await portFindings(config.core, running)),
    ...(await daemonFindings(running, {
      seconds: config.core.follow.maxReadyLagSeconds,
      slots: config.core.follow.maxReadyLagSlots,
    })),
  ];
}

/** One line per problem of the configuration; checks that depend on it are impossible. */
function configFindings(error: unknown): Finding[] {
  if (!(error instanceof CodedError) || error.exitCode === undefined) throw error;
  const given = error.facts['problems'];
  const problems = Array.isArray(given) && error.code === 'CONFIG_INVALID' ? given.map(String) : [messageOf(error)];
  const advice = 'config/parhelion.yaml of the package explains every key';
  return problems.map((problem) => fail('configuration', problem, advice, error.exitCode));
}

function render(findings: readonly Finding[]): string[] {
  const count = (level: Finding['level']) => findings.filter((finding) => finding.level === level).length;
  const lines = findings.map(({ check, level, detail, advice }) => {
    const mark = level === 'fail' ? 'FAIL' : level.padEnd(4);
    return `${mark} ${check.padEnd(13)} ${detail}${advice === undefined ? '' : ` -> ${advice}`}`;
  });
  return [...lines, `${count('ok')} ok, ${count('warn')} warnings, ${count('fail')} failed`];
}
