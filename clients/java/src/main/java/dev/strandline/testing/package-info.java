/**
 * Servers for tests with JUnit 5, which the program brings: {@code
 * org.junit.jupiter:junit-jupiter}.
 */
package dev.strandline.testing;
