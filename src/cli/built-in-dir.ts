import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** `plugins/` next to `src/`, in the source tree and in the built one. */
export const builtInDir = fileURLToPath(new URL('../../plugins', import.meta.url));

/** Start folders of the search for plugin packages: that of the configuration file (null: none) and that of the program. */
export const packageDirs = (configFile: string | null): readonly string[] =>
  configFile === null ? [builtInDir] : [dirname(configFile), builtInDir];
