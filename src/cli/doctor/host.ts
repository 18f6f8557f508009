import { readFileSync, statSync } from 'node:fs';
import type { LoadedConfig } from '../../kernel/config/load.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

/** Releases that the tests run on. */
const TESTED_MAJORS = [20, 24];
const MIN_NODE = [20, 19] as const;
/** Files, database and upstream connections beside the clients' sockets. */
const OWN_DESCRIPTORS = 512;
const OTHERS_MAY_READ = 0o004;

export function nodeFinding(version: string): Finding {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  if (major < MIN_NODE[0] || (major === MIN_NODE[0] && minor < MIN_NODE[1]))
    return fail('node', `${version} is too old`, `install Node.js ${MIN_NODE.join('.')} or later`, 78);
  if (TESTED_MAJORS.includes(major)) return ok('node', version);
  return warn('node', `${version} is not tested`, `use a release of ${TESTED_MAJORS.join(' or ')}`);
}

/** The file may hold addresses with keys and a database password. */
export function configFileFinding({ file }: LoadedConfig): Finding {
  if (file === null) return ok('configuration', 'no file: defaults and environment');
  const mode = statSync(file).mode & 0o777;
  if ((mode & OTHERS_MAY_READ) === 0) return ok('configuration', `${file} is fine`);
  return warn('configuration', `${file} is fine, but everybody may read it (mode ${mode.toString(8)})`, 'chmod o-r it');
}

/** Of the running daemon where there is one, else of this shell. */
export function openFilesFinding(maxConnections: number, pid: number | null): Finding {
  const owner = pid === null ? 'this shell' : 'the daemon';
  let text: string;
  try {
    text = readFileSync(`/proc/${pid ?? 'self'}/limits`, 'utf8');
  } catch {
    return ok('open files', `the limit of ${owner} cannot be read here`);
  }
  return openFilesIn(text, maxConnections, owner);
}

/** Reads the text of /proc/<pid>/limits. */
export function openFilesIn(text: string, maxConnections: number, owner: string): Finding {
  const soft = /^Max open files\s+(\S+)/m.exec(text)?.[1] ?? 'unknown';
  const needed = maxConnections + OWN_DESCRIPTORS;
  const detail = `the limit of ${owner} is ${soft}`;
  if (!/^\d+$/.test(soft) || Number(soft) >= needed) return ok('open files', detail);
  return warn(
    'open files',
    `${detail}, http.maxConnections ${maxConnections} needs about ${needed}`,
    'raise it (LimitNOFILE= in the unit, ulimit -n in a shell) or lower http.maxConnections',
  );
}
