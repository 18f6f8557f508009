import { API_VERSION, CodedError, definePlugin } from '../../src/plugin/plugin.ts';
import { accessAccounts, accessRemoval } from '../../src/ports/access.ts';
import { claimRoute, createClaims, migrations, readTerms, refused, tables, termsRoute } from './claim.ts';
import { signupConfig } from './config.ts';
import { SIGNUP_ERRORS } from './errors.ts';
import { createProcessor } from './processor.ts';

/** Keys for whoever pays: agents need no operator. Not in the usual list of plugins. */
export default definePlugin({
  id: 'signup',
  apiVersion: API_VERSION,
  summary: 'gives API keys for payments on the chain: GET and POST /v0/signup',
  config: signupConfig,
  uses: [accessAccounts, accessRemoval],
  migrations,
  provision({ config, store, clock, use, http, blocks, onStart }) {
    const accounts = use(accessAccounts);
    if (accounts === undefined)
      throw new CodedError('SIGNUP_NO_ACCESS', SIGNUP_ERRORS.SIGNUP_NO_ACCESS, { exitCode: 78 });
    const terms = readTerms(config);
    http.route(termsRoute(terms, config.plan, config.credits));
    http.route(claimRoute(createClaims({ store, clock, accounts, config })));
    blocks.on(createProcessor(terms));
    // The next payment of the wallet makes a new project.
    use(accessRemoval)?.onDelete(async (tx, project) => {
      await tables(tx.db).deleteFrom('signup_projects').where('project_id', '=', project).execute();
    });
    onStart(() => {
      if (!accounts.hasPlan(config.plan)) throw refused(`there is no plan ${config.plan}`);
    });
  },
});
