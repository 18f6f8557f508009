import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { supportedVersion } from './common.mjs';
import { writeFile } from './npm.mjs';

/** Homebrew accepts no longer description. */
const MAX_DESCRIPTION = 80;

/** Writes the formula: it installs the npm package with npm, on macOS and Linux, for the Node of the other packages. */
export function makeFormula({ root, file, address, hash }) {
  const { description, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const [words] = description.split(':');
  if (words.length > MAX_DESCRIPTION)
    throw new Error(`the description in package.json begins with ${words.length} characters`);
  const node = `node@${supportedVersion(root).version.split('.')[0]}`;
  writeFile(
    file,
    `class Parhelion < Formula
  desc "${words}"
  homepage "${new URL(address).origin}"
  url "${address}"
  sha256 "${hash}"
  license "${license}"

  depends_on "${node}"

  def install
    system "npm", "install", *std_npm_args
    # ${node} is in no path: the command starts with it, and tells users its own name.
    env = { PATH: "#{Formula["${node}"].opt_bin}:$PATH", PARHELION_STARTED_AS: bin/"parhelion" }
    (bin/"parhelion").write_env_script libexec/"bin/parhelion", env
    man1.install_symlink Dir[libexec/"share/man/man1/*"]
    generate_completions_from_executable(bin/"parhelion", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/parhelion --version")
    ENV["SOLANA_RPC_URL"] = "http://127.0.0.1:9"
    system bin/"parhelion", "init", "--output", testpath/"parhelion.yaml"
    system bin/"parhelion", "check-config", "--config", testpath/"parhelion.yaml"
  end
end
`,
  );
}
