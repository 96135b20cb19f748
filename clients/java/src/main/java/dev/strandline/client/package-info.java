/**
 * Client of Strandline, a replicated write-ahead log. Begin with {@link
 * dev.strandline.client.Client}. Every error is a {@link
 * dev.strandline.client.StrandlineException}.
 */
package dev.strandline.client;
