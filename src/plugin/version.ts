/** The version of the plugin API. A plugin that requires another version is refused at start. */
export const API_VERSION = 1;
