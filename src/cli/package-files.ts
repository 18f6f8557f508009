import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** `plugins/` next to `src/`, in the source tree and in the built one. */
export const builtInDir = fileURLToPath(new URL('../../plugins', import.meta.url));

/** Start folders of the search for plugin packages: that of the configuration file (null: none) and that of the program. */
export const packageDirs = (configFile: string | null): readonly string[] =>
  configFile === null ? [builtInDir] : [dirname(configFile), builtInDir];

/** The folder with the manifest of the package, a parent folder of both the source and the built tree. */
export function packageRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json')) && dirname(dir) !== dir) dir = dirname(dir);
  return dir;
}

export function readVersion(): string {
  const manifest = join(packageRoot(), 'package.json');
  return existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version : '0.0.0';
}

/** The commit that was built, as the build noted it; null in a source tree, and for a build without git. */
export function readCommit(): string | null {
  const file = new URL('../../build.json', import.meta.url);
  if (!existsSync(file)) return null;
  return (JSON.parse(readFileSync(file, 'utf8')) as { commit: string | null }).commit;
}

/** `0.1.0 (commit 0123456789ab)` */
export function versionText(): string {
  const commit = readCommit();
  return commit === null ? readVersion() : `${readVersion()} (commit ${commit})`;
}

/** config/parhelion.yaml of the package, which documents every key. */
export const referenceFile = (): string => join(packageRoot(), 'config', 'parhelion.yaml');
